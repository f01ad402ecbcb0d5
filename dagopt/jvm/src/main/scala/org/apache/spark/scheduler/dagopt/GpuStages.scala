package org.apache.spark.scheduler.dagopt

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, TimeUnit, TimeoutException}
import java.util.concurrent.atomic.AtomicLong

import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.TaskSchedulerImpl

/**
 * A GPU operator about to run, for which the planner chooses a form.
 *
 * @param signature the number of the physical plan up to and with the operator
 * @param follows the operators that run behind it in the same stage, the nearest first
 * @param limited a limit above needs only some of the rows, and Spark starts with few partitions
 * @param setting of `spark.dagopt.boundary` for this operator, if it has its own
 * @param mustSplit another profile stands in front of it, with which it cannot share a stage
 * @param sliceable whether it can be cut into slices, and a shuffle be put behind it
 * @param hasCpuForm whether its functions run without a GPU too
 */
private[spark] final case class GpuQuestion(
    signature: String,
    name: String,
    numPartitions: Int,
    profile: ResourceProfile,
    follows: Seq[String],
    limited: Boolean,
    setting: Option[String],
    mustSplit: Boolean,
    sliceable: Boolean = true,
    hasCpuForm: Boolean = false)

/**
 * How a GPU operator runs.
 *
 * @param id of the question
 * @param slices how many partitions each slice has; their sum is that of the operator
 * @param before whether an identity shuffle stands before the GPU part of each slice
 * @param after whether one stands behind it
 * @param askAgain the first slice runs at once, to be measured, and the rest is asked about again
 * @param measureTasks ... as soon as so many GPU tasks of it have ended; 0 for all
 * @param stepwise whether slices start one after the other, as `GpuStages.steps` says
 * @param maxCpuTasks how many tasks in front of the GPU parts may be active before one of a later slice
 *                    than the first is; 0 for any number
 */
private[spark] final case class GpuForm(
    id: Long,
    slices: Seq[Int],
    before: Boolean = false,
    after: Boolean = false,
    askAgain: Boolean = false,
    measureTasks: Int = 0,
    stepwise: Boolean = false,
    maxCpuTasks: Int = 0)

/**
 * A slice that is started step by step.
 *
 * @param phase as the planner calls it
 * @param left partitions whose running part has not ended
 * @param slots tasks of its CPU-only form that may run at once
 * @param runningMs since one of them started
 */
private[spark] final case class SliceState(size: Int, phase: String, left: Int, slots: Int, runningMs: Int)

/** What to start now: numbers of slices. */
private[spark] final case class NextSteps(
    takeBack: Seq[Int], startGpu: Seq[Int], startCpu: Seq[Int], shift: Seq[(Int, Int)])

/**
 * Asks the planner in which form GPU operators run. In doubt they run as Spark would run them: the
 * answer late, the planner dead, dagopt off, anything thrown.
 *
 * '''Threads.''' `formOf` waits on the thread that plans the query; answers come on the planner's
 * reading thread.
 */
private[dagopt] final class GpuStages(
    sc: SparkContext,
    conf: DagoptConf,
    switch: Switch,
    planner: PlannerProcess,
    counters: Counters,
    executors: ExecutorTable) extends Logging {

  private val ids = new AtomicLong()
  private val asked = new ConcurrentHashMap[Long, CompletableFuture[ForStage]]()
  /** Null before the gate is there, and so before any query. */
  @volatile var cpuLimit: CpuLimit = _
  val meter = new GpuMeter(planner, cpusOf)
  val lost = new LostQueries

  switch.onOff(new Runnable { def run(): Unit = asked.values.forEach(a => a.complete(null)) })

  def isOn: Boolean = !switch.isOff
  def boundary: String = conf.boundary

  /** Whether what is decided is done. */
  def acts: Boolean = isOn && conf.mode == "on"

  def givesProfiles: Boolean = conf.mode == "on"

  def arrived(answer: ForStage): Unit = {
    val waiting = asked.remove(answer.id)
    if (waiting != null) waiting.complete(answer)
  }

  def formOf(question: GpuQuestion): GpuForm = {
    val id = ids.incrementAndGet()
    val fused = GpuStages.fused(id, question.numPartitions)
    if (!isOn || question.numPartitions == 0) fused
    else {
      awaitExecutor()
      val answer =
        try ask(id, message(id, question, preview = false), if (acts) conf.plannerTimeoutMs else 0) catch {
          case _: TimeoutException => late(s"leaves ${question.name} as Spark planned it"); null
        }
      answer match {
        case form: Answer.Form => checked(form, question)
        case _ => fused
      }
    }
  }

  /** The form that it would get now, with the reason, as the planner shows it. Touches nothing. */
  def preview(question: GpuQuestion): ObjectNode = {
    awaitExecutor()
    val id = ids.incrementAndGet()
    val answer =
      try ask(id, message(id, question, preview = true), GpuStages.PreviewWaitMs) catch { case _: TimeoutException => null }
    answer match {
      case null =>
        val why = if (switch.isOff) s"dagopt is off: ${switch.reason}" else "the planner does not answer"
        GpuStages.unknown(question, why)
      case form: Answer.Form if form.body.isInstanceOf[ObjectNode] => form.body.asInstanceOf[ObjectNode]
      case _ => GpuStages.unknown(question, "the planner shows nothing of it")
    }
  }

  /**
   * What to start next of slices that start step by step; None where nothing more is to be said.
   * What could not be asked for is left to Spark.
   */
  def steps(form: Long, states: Seq[SliceState], profile: ResourceProfile): Option[NextSteps] = {
    val answer =
      try ask(form, Messages.slices(form, states, profile, executors, defaultCpus), conf.plannerTimeoutMs)
      catch { case _: TimeoutException => late("leaves the slices that wait to Spark"); null }
    answer match {
      case steps: Answer.Steps if !steps.end =>
        val next = NextSteps(steps.takeBack.toSeq, steps.startGpu.toSeq, steps.startCpu.toSeq,
          steps.shift.toSeq.zip(steps.shiftSlots))
        val all = next.takeBack ++ next.startGpu ++ next.startCpu ++ steps.shift
        val isSense = all.forall(states.indices.contains(_)) && steps.shift.length == steps.shiftSlots.length
        if (isSense && steps.shiftSlots.forall(_ > 0)) Some(next)
        else {
          switch.turnOff(s"the planner answered nonsense: slices ${all.mkString(", ")} of ${states.length}")
          None
        }
      case _ => None
    }
  }

  private def late(consequence: String): Unit = {
    counters.fallbacks.incrementAndGet()
    logInfo(s"dagopt $consequence: no answer within ${conf.plannerTimeoutMs} ms")
  }

  private def message(id: Long, question: GpuQuestion, preview: Boolean): Array[Byte] =
    Messages.gpuStage(id, question, executors, defaultCpus, !preview && conf.mode == "on", conf.boundary, preview)

  /**
   * The planner's answer; null if nobody waits for it, or if dagopt is off.
   *
   * @param waitMs 0 for not at all
   */
  private def ask(id: Long, message: => Array[Byte], waitMs: Long): ForStage = {
    val waiting = new CompletableFuture[ForStage]()
    asked.put(id, waiting)
    try {
      val sent = !switch.isOff && planner.send(message)
      if (!sent || waitMs == 0 || switch.isOff) null else waiting.get(waitMs, TimeUnit.MILLISECONDS)
    } finally asked.remove(id)
  }

  private def checked(answer: Answer.Form, question: GpuQuestion): GpuForm = {
    val form = GpuForm(answer.id, answer.slices.toSeq, answer.before, answer.after, answer.askAgain,
      if (RunTime.tellsStarts) answer.measureTasks else 0, answer.stepwise, answer.maxCpuTasks)
    val whole = form.slices.map(_.toLong).sum == question.numPartitions && form.slices.forall(_ > 0)
    // Slices without a shuffle at their end would run in one stage, and hold each other up.
    // A form that asks again leaves something to ask about, and so comes to an end.
    val wrong = form.slices.length > 1 && !(form.before && form.after) ||
      form.askAgain && form.slices.length < 2 || form.stepwise && (!question.hasCpuForm || form.maxCpuTasks < 1)
    if (!whole || wrong) {
      switch.turnOff(s"the planner answered nonsense: slices ${form.slices.mkString(", ")} of ${question.numPartitions} partitions")
      GpuStages.fused(answer.id, question.numPartitions)
    } else form
  }

  private def cpusOf(profile: Int): Double =
    if (profile == ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID) defaultCpus
    else GpuStages.cpusOf(sc.resourceProfileManager.resourceProfileFromId(profile), defaultCpus)

  private def defaultCpus: Double = sc.taskScheduler match {
    case scheduler: TaskSchedulerImpl => TaskCpus.ofDefaultTask(scheduler)
    case _ => 1.0
  }

  /** Nothing can run before there is an executor, so waiting for the first one delays nothing. */
  private def awaitExecutor(): Unit = {
    val endNs = System.nanoTime() + GpuStages.MaxWaitNs
    while (executors.cores == 0 && !sc.conf.getBoolean("spark.dynamicAllocation.enabled", false) &&
        System.nanoTime() < endNs && isOn) Thread.sleep(GpuStages.StepMs)
  }

  /** Waits until what a slice took was told to the planner, not longer than the planner may take. */
  def awaitMeasured(id: Long): Unit =
    try meter.measured(id).get(conf.plannerTimeoutMs, TimeUnit.MILLISECONDS) catch { case _: TimeoutException => }

  def failed(what: String, cause: Throwable): Unit = switch.turnOff(s"$what failed", cause)
}

private[spark] object GpuStages {
  private val MaxWaitNs = TimeUnit.SECONDS.toNanos(30)
  private val StepMs = 20L
  /** Nothing waits for a preview but the user. */
  private val PreviewWaitMs = 10000L

  /** Of the running application; null where dagopt is not loaded. */
  @volatile private[dagopt] var current: GpuStages = _

  def isOn: Boolean = { val stages = current; stages != null && stages.isOn }

  /** Whether functions get the profiles that they were marked with, which needs no planner. */
  def givesProfiles: Boolean = { val stages = current; stages != null && stages.givesProfiles }

  def acts: Boolean = { val stages = current; stages != null && stages.acts }
  /** The setting of the application. */
  def boundary: String = { val stages = current; if (stages == null) "never" else stages.boundary }

  /** Never throws, but for an interrupt. */
  def formOf(question: GpuQuestion): GpuForm = guarded("asking for the form of a GPU stage", fused(0, question.numPartitions))(
    _.formOf(question))

  /** The RDD and the shuffles of a slice, from which its measures are told. Never throws. */
  def measure(form: GpuForm, slice: Int, parts: GpuParts): Unit = guarded("measuring a GPU stage", ()) { stages =>
    stages.meter.watch(form, slice, parts)
    if (form.maxCpuTasks > 0 && stages.cpuLimit != null) {
      stages.cpuLimit.watch(form.id, parts.before, form.maxCpuTasks)
    }
  }

  /** The same of a slice in its CPU-only form, of which so many tasks may run at once. */
  def measureCpuOnly(form: GpuForm, slice: Int, shuffle: Int, slots: Int): Unit =
    guarded("measuring a GPU stage", ()) { stages =>
      stages.meter.watchCpuOnly(form.id, slice, shuffle)
      if (stages.cpuLimit != null) stages.cpuLimit.watch(form.id, shuffle, form.maxCpuTasks, slots)
    }

  /** Whether a task of the slice's CPU-only form has started. */
  def hasStarted(shuffle: Int): Boolean = guarded("measuring a GPU stage", true) { stages =>
    stages.cpuLimit == null || stages.cpuLimit.hasStarted(shuffle)
  }

  /** Completes when what the slice took was told to the planner. */
  def measured(id: Long): CompletableFuture[Unit] =
    guarded("measuring a GPU stage", CompletableFuture.completedFuture(()))(_.meter.measured(id))

  /** Whether the query with this number has failed, or was cancelled. */
  def isLost(query: String): Boolean = guarded("looking at a query", false)(_.lost.has(query))

  def steps(form: Long, states: Seq[SliceState], profile: ResourceProfile): Option[NextSteps] =
    guarded("asking for the next slices", Option.empty[NextSteps])(_.steps(form, states, profile))

  /** What `dagopt.explain` shows of a GPU stage. */
  def preview(question: GpuQuestion): ObjectNode = {
    val stages = current
    if (stages == null) unknown(question, "dagopt is off") else stages.preview(question)
  }

  /** ... where nothing is known but that it runs as Spark plans it. */
  def unknown(question: GpuQuestion, why: String): ObjectNode = {
    val shown = Wire.mapper.createObjectNode().put("name", question.name).put("form", "fused")
    question.follows.foldLeft(shown.putArray("above"))(_.add(_))
    shown.put("reason", s"as Spark plans it: $why")
  }

  def awaitMeasured(id: Long): Unit = guarded("measuring a GPU stage", ())(_.awaitMeasured(id))

  def failed(what: String, cause: Throwable): Unit = { val stages = current; if (stages != null) stages.failed(what, cause) }

  /** What a task of the profile takes. */
  private[dagopt] def cpusOf(profile: ResourceProfile, defaultCpus: Double): Double =
    profile.taskResources.get(ResourceProfile.CPUS).fold(defaultCpus)(_.amount)

  /** A number for the text of a physical plan, the same in every run. */
  def number(plan: String): String = SqlPlans.number(plan)

  def fused(id: Long, numPartitions: Int): GpuForm =
    GpuForm(id, Seq(numPartitions))

  private def guarded[A](what: String, default: A)(body: GpuStages => A): A = {
    val stages = current
    if (stages == null) default
    else try body(stages) catch {
      case e: InterruptedException => throw e
      case t: Throwable => stages.failed(what, t); default
    }
  }
}
