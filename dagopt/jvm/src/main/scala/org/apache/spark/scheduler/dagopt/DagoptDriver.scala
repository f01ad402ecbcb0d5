package org.apache.spark.scheduler.dagopt

import java.util.{Collections, Map => JMap}

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, PluginContext}
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SchedulableBuilder, TaskSchedulerImpl}

/**
 * Dagopt on the driver.
 *
 * '''Life.''' `init` runs inside the constructor of the SparkContext, before its task scheduler
 * exists: it starts the planner and the [[Tap]]. `registerMetrics` is the first call for which the
 * task scheduler is there, still before any job: it puts the [[Gate]] in its place. `shutdown` ends
 * the planner, and must not use Spark.
 *
 * '''Threads.''' Spark calls these methods one after the other; `receive` comes on an RPC thread.
 */
private[dagopt] final class DagoptDriver extends DriverPlugin with Logging {
  private val switch = new Switch
  private val counters = new Counters
  private val executors = new ExecutorTable
  private val plans = new SqlPlans
  private var sc: SparkContext = _
  private var conf: DagoptConf = _
  private var planner: PlannerProcess = _
  private var tap: Tap = _
  private var gpuStages: GpuStages = _
  @volatile private var gate: Gate = _
  @volatile private var fetches: Fetches = _
  private val reports = new Reports(counters, switch)

  override def init(sc: SparkContext, context: PluginContext): JMap[String, String] = {
    var forExecutors: JMap[String, String] = Collections.emptyMap()
    try {
      this.sc = sc
      switch.isStopping = () => sc.isStopped
      Dagopt.current = reports
      conf = DagoptConf.parse(sc.conf)
      reports.conf = conf
      if (conf.mode == "off") switch.silence("spark.dagopt.mode is off")
      else {
        // Also where neither grouping nor boundaries are on: a hint may ask for these, a function for a profile.
        planner = new PlannerProcess(conf, counters, heard, reason => switch.turnOff(reason))
        switch.onOff(new Runnable { def run(): Unit = { reports.end(); planner.close() } })
        planner.start()
        gpuStages = new GpuStages(sc, conf, switch, planner, counters, executors)
        GpuStages.current = gpuStages
        tap = new Tap(switch, executors, planner, plans, gpuStages)
        sc.listenerBus.addToQueue(tap, "dagopt")
        if (conf.probeEnabled && conf.groupingEnabled) {
          forExecutors = Collections.singletonMap(Probe.IntervalKey, conf.probeIntervalMs.toString)
        }
      }
    } catch {
      case e: DagoptConf.Invalid =>
        switch.silence(e.getMessage)
        try logError(BuildInfo.offMessage(e.getMessage)) catch { case _: Throwable => }
      case t: Throwable => switch.turnOff("it could not start", t)
    }
    forExecutors
  }

  override def registerMetrics(appId: String, context: PluginContext): Unit = {
    // First, and where dagopt is off already too: both say so.
    if (conf == null || conf.mode != "off") {
      DagoptTab.attach(sc, reports)
      DagoptMetrics.register(sc, counters, switch)
    }
    if (!switch.isOff) switch.guard("the start of the gate") {
      sc.taskScheduler match {
        case scheduler: TaskSchedulerImpl => openGate(scheduler, appId)
        case other => switch.turnOff(s"the task scheduler is a ${other.getClass.getName}, not Spark's own")
      }
    }
  }

  private def openGate(scheduler: TaskSchedulerImpl, appId: String): Unit = {
    val opened = new Gate(sc, scheduler, conf, planner, counters, switch, executors, plans)
    switch.onOff(new Runnable { def run(): Unit = opened.releaseAll(s"dagopt is off: ${switch.reason}") })
    val field = classOf[TaskSchedulerImpl].getDeclaredFields.find(_.getName.endsWith("schedulableBuilder")).get
    field.setAccessible(true)
    planner.send(Messages.hello(appId, conf, opened.concurrency.whyNot))
    fetches = new Fetches(opened, planner)
    reports.planner = planner
    gpuStages.cpuLimit = opened.cpuLimit
    tap.open(opened)
    scheduler.synchronized {
      field.set(scheduler, new GateBuilder(field.get(scheduler).asInstanceOf[SchedulableBuilder], opened))
    }
    opened.start()
    gate = opened
    logInfo(s"dagopt ${BuildInfo.version} for Spark ${BuildInfo.sparkMinor} runs: mode ${conf.mode}, " +
      s"planner ${conf.plannerCommand.mkString(" ")}")
    early.synchronized {
      early.forEach(answer => opened.answer(answer))
      early.clear()
      opens = true
    }
  }

  // The planner may be ready before the gate is there.
  private val early = new java.util.ArrayList[Answer]()
  private var opens = false

  private def heard(answer: Answer): Unit = answer match {
    case Answer.Report(id, body) => reports.arrived(id, body)
    case Answer.Pong(_) =>
    case told: Answer.Counts => counters.told = told
    case answer: ForStage => gpuStages.arrived(answer)
    case other => early.synchronized { if (opens) gate.answer(other) else early.add(other) }
  }

  override def receive(message: AnyRef): AnyRef = {
    if (!switch.isOff) switch.guard("reading what an executor's probe sent") {
      message match {
        case Array(executor: String, samples: Array[Long]) if fetches != null => fetches.receive(executor, samples)
        case _ =>
      }
    }
    null
  }

  override def shutdown(): Unit =
    try {
      if (gate != null) logInfo(counters.summary)
      switch.silence("the application has ended")
      if (gpuStages != null && (GpuStages.current eq gpuStages)) GpuStages.current = null
      if (planner != null) planner.close()
      reports.end()
      if (gate != null) gate.stop()
      // The report of this application stays for who asks; its SparkContext need not.
      switch.close()
    } catch { case _: Throwable => }
}
