package org.apache.spark.scheduler.dagopt

import java.util.concurrent._

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{Schedulable, StageInfo, TaskSchedulerImpl, TaskSetManager}

/**
 * Holds the tasks of a task set until the planner says when each may start.
 *
 * '''Life of a task set.''' Submitted: it is looked at on Spark's scheduling thread, and held if it
 * may gain. Then its inputs are summed and told to the planner, on a thread of ours. Planned: the
 * answer puts its tasks back, or launches follow. Over: nothing is held any more; its events are
 * still told until the stage attempt ends.
 *
 * '''Deadlines.''' Each state has one ([[Watchdog]]); past it, everything is given back to Spark in
 * Spark's order and with Spark's concurrency.
 *
 * '''Threads.''' `submitted` runs on Spark's DAG scheduler thread, which holds the task scheduler's
 * lock; it never waits and takes at most a millisecond. Inputs have a thread, and everything else
 * happens on the gate's own one, which takes the scheduler's lock only to move tasks.
 */
private[dagopt] final class Gate(
    sc: SparkContext,
    val scheduler: TaskSchedulerImpl,
    val conf: DagoptConf,
    val planner: PlannerProcess,
    val counters: Counters,
    switch: Switch,
    val executors: ExecutorTable,
    plans: SqlPlans) extends Logging {

  private val inputs = new Inputs(sc, scheduler)
  val concurrency = new Concurrency(sc, scheduler, conf.slotsPerCore)
  val cpuLimit = new CpuLimit(scheduler)
  private val sets = new ConcurrentHashMap[SetKey, HeldSet]()
  @volatile private var ready = false
  @volatile private var holdFrom = 0
  @volatile private var lastStage = -1
  /** Stages that served to warm up: the first one, and the first that reads a shuffle. */
  private var lookedAt = 0
  /** Task sets in a row that the planner did not answer in time. The gate's thread. */
  private var unanswered = 0
  private var missedNs = 0L

  private val timer = {
    val t = new ScheduledThreadPoolExecutor(1, Gate.daemons("dagopt-gate", 0))
    t.setRemoveOnCancelPolicy(true)
    t.setExecuteExistingDelayedTasksAfterShutdownPolicy(false)
    t
  }
  // The walk through a lineage of thousands of RDDs is recursive where paths part.
  private val summing = new ThreadPoolExecutor(1, 1, 0L, TimeUnit.SECONDS,
    new LinkedBlockingQueue[Runnable](), Gate.daemons("dagopt-inputs", 64L * 1024 * 1024))
  private val watchdog = new Watchdog(this)

  def start(): Unit = {
    summing.prestartAllCoreThreads()
    post("loading dagopt's classes")(WarmUp.run())
    timer.scheduleWithFixedDelay(
      new Runnable { def run(): Unit = switch.guard("the watchdog") { cpuLimit.refill(); watchdog.tick(System.nanoTime()) } },
      Watchdog.PeriodMs, Watchdog.PeriodMs, TimeUnit.MILLISECONDS)
  }

  def stop(): Unit = { timer.shutdownNow(); summing.shutdownNow() }

  /** Runs `body` on the gate's thread. */
  def post(what: String)(body: => Unit): Unit =
    timer.execute(new Runnable { def run(): Unit = switch.guard(what)(body) })

  def find(key: SetKey): HeldSet = sets.get(key)
  def all: Iterable[HeldSet] = sets.values.asScala
  def isFollowed: Boolean = !sets.isEmpty

  // ---- on Spark's scheduling thread -----------------------------------------------------------

  def submitted(schedulable: Schedulable): Unit = {
    val beginNs = System.nanoTime()
    val beginCpuNs = counters.cpuNs()
    switch.guard("holding a task set") {
      schedulable match {
        case manager: TaskSetManager if !switch.isOff => if (!cpuLimit.took(manager)) consider(manager)
        case _ =>
      }
    }
    counters.gateTook(System.nanoTime() - beginNs, counters.cpuNs() - beginCpuNs)
  }

  private def consider(manager: TaskSetManager): Unit = {
    counters.taskSetsSeen.incrementAndGet()
    if (ready && conf.groupingEnabled && mayHold(manager)) {
      scheduler.dagScheduler.stageIdToStage.get(manager.stageId).foreach { stage =>
        val lineage = Lineage.of(stage.rdd)
        if (lookedAt == 0 || lookedAt == 1 && lineage.shuffles.nonEmpty) {
          lookedAt += 1
          post("warming up")(WarmUp.look(stage.rdd, scheduler))
        }
        if (lineage.reads && !inputs.isSmall(lineage, manager, conf.minInputBytes)) {
          follow(manager, stage.latestInfo, lineage)
        }
      }
    }
  }

  /** The task sets that dagopt keeps its hands off. */
  private def mayHold(manager: TaskSetManager): Boolean = {
    val taskSet = manager.taskSet
    val properties = taskSet.properties
    manager.numTasks > 1 && !manager.isBarrier && !TaskCpus.isPipelined(taskSet) &&
      // A later attempt is a retry after a fetch failure: the hosts it would be planned on are in doubt.
      taskSet.stageAttemptId == 0 &&
      taskSet.resourceProfileId == ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID &&
      // A streaming micro-batch has a deadline of its own.
      (properties == null ||
        Gate.StreamingProperties.forall(name => properties.getProperty(name) == null))
  }

  private def follow(manager: TaskSetManager, stage: StageInfo, lineage: Lineage): Unit = {
    val key = SetKey(manager.stageId, manager.taskSet.stageAttemptId)
    val holds = conf.mode == "on" && manager.numTasks >= holdFrom
    val set = new HeldSet(key, manager, holds, stage, System.currentTimeMillis(), concurrency.canRaise)
    lastStage = math.max(lastStage, key.stage)
    if (set.holds) {
      set.lists = PendingLists.take(manager.pendingTasks)
      set.held.set(0, set.numTasks)
    }
    try {
      sets.put(key, set)
      summing.execute(new Runnable {
        def run(): Unit = switch.guard("summing the inputs of a task set")(introduce(set, lineage))
      })
    } catch {
      case t: Throwable =>
        sets.remove(key)
        if (set.holds) set.lists.putBack(manager.pendingTasks, _ => true, null)
        throw t
    }
    if (set.holds) {
      counters.taskSetsHeld.incrementAndGet()
      counters.tasksHeld.addAndGet(set.numTasks)
    }
  }

  // ---- on the thread that sums inputs ---------------------------------------------------------

  private def introduce(set: HeldSet, lineage: Lineage): Unit =
    // Dagopt may have gone off after the set was held and before it stood in the table.
    if (switch.isOff) post("giving back a task set") { fallBack(set, "dagopt is off"); forget(set, tell = false) }
    else if (!set.ended) {
      val found = inputs.of(lineage, set.manager)
      set.expect(found.taskBytes)
      if (found.total < conf.minInputBytes) {
        post("releasing a small task set") { giveBack(set, null); forget(set, tell = false) }
      } else {
        val sent = set.introduce(planner, Messages.taskSet(set, found, plans.of(set.manager.taskSet.properties)))
        post("telling the planner of a task set") {
          if (sent) set.toldNs = System.nanoTime()
          else { fallBack(set, "the planner does not read its messages"); forget(set, tell = false) }
        }
      }
    }

  // ---- on the gate's thread -------------------------------------------------------------------

  /** An answer of the planner, in the order in which they came. */
  def answer(answer: Answer): Unit = post("an answer of the planner") {
    watchdog.heard()
    try if (!switch.isOff) act(answer)
    catch { case e: Nonsense => switch.turnOff(s"the planner answered nonsense: ${e.getMessage}") }
  }

  private def act(answer: Answer): Unit = answer match {
    case Answer.Ready => ready = true
    case Answer.HoldFrom(numTasks) => holdFrom = numTasks
    case Answer.Plan(key, action, tasksPerCore, order, _) =>
      // A plan that comes when its set was given back already was missed, and stays so.
      heldSet(key).foreach { set =>
        unanswered = 0
        plan(set, action, tasksPerCore, order)
      }
    case Answer.Concurrency(key, tasksPerCore) =>
      followed(key).filter(_.holds).foreach { set =>
        scheduler.synchronized(concurrency(set.manager, tasksPerCore))
        scheduler.backend.reviveOffers()
      }
    case Answer.Launch(key, group, tasks, executor, delayMs) =>
      heldSet(key).foreach(launchLater(_, group, tasks, executor, delayMs))
    case Answer.Release(key, _) => heldSet(key).foreach(giveBack(_, null))
    case _: Answer.Pong | _: Answer.Report | _: Answer.Counts | _: ForStage =>
  }

  /** None if the set ended while the answer was on its way. */
  private def followed(key: SetKey): Option[HeldSet] = {
    val set = Option(sets.get(key))
    if (set.isEmpty && (key.stage < 0 || key.stage > lastStage || key.attempt != 0)) {
      throw new Nonsense(s"$key was never told")
    }
    set
  }

  /** None if nothing of it is held any more: a deadline may have been faster than the answer. */
  private def heldSet(key: SetKey): Option[HeldSet] = followed(key).filter(_.isHeld)

  private def plan(set: HeldSet, action: String, tasksPerCore: Int, order: Array[Int]): Unit = {
    val rank = if (order == null) null else rankOf(set, order)
    set.planned = true
    scheduler.synchronized(concurrency(set.manager, tasksPerCore))
    action match {
      case "pass" => giveBack(set, null)
      case "order" if rank != null => giveBack(set, rank)
      case "order" => throw new Nonsense(s"a plan to order ${set.key} without an order")
      case "group" =>
      case other => throw new Nonsense(s"action '$other', expected pass, order or group")
    }
  }

  private def rankOf(set: HeldSet, order: Array[Int]): Array[Int] = {
    val rank = Array.fill(set.numTasks)(-1)
    order.indices.foreach { place =>
      checkTask(set, order(place))
      rank(order(place)) = place
    }
    if (order.length != set.numTasks || rank.contains(-1)) {
      throw new Nonsense(s"an order of ${order.length} tasks, expected each of ${set.numTasks} once")
    }
    rank
  }

  private def checkTask(set: HeldSet, task: Int): Unit =
    if (task < 0 || task >= set.numTasks) {
      throw new Nonsense(s"task $task of ${set.key}, which has ${set.numTasks}")
    }

  private def launchLater(set: HeldSet, group: Int, tasks: Array[Int], executor: String, delayMs: Long): Unit = {
    tasks.foreach(checkTask(set, _))
    if (executor != null && !executors.wasEver(executor)) throw new Nonsense(s"executor '$executor'")
    set.planned = true
    set.timers.remove(group).foreach(_.future.cancel(false))
    if (delayMs == 0) launch(set, tasks, executor)
    else {
      val future = timer.schedule(new Runnable {
        def run(): Unit = switch.guard("launching a group") {
          set.timers.remove(group)
          launch(set, tasks, executor)
        }
      }, math.min(delayMs, conf.maxDelayMs), TimeUnit.MILLISECONDS)
      set.timers.put(group, new Timer(tasks, executor, future))
    }
  }

  /** Puts tasks back into the lists of their manager; those that are not held (any more) stay. */
  private def launch(set: HeldSet, asked: Array[Int], executor: String): Unit =
    if (set.isHeld) {
      val tasks = asked.filter(set.held.get).distinct
      val pinned = executor != null && executors.isAlive(executor) && PendingLists.canPin(set.manager)
      scheduler.synchronized {
        if (set.manager.isZombie) dropHold(set)
        else {
          tasks.foreach(set.held.clear(_))
          if (pinned) PendingLists.pin(set.manager, tasks, executor)
          else {
            PendingLists.add(set.manager, tasks)
            resetLocality(set)
          }
        }
      }
      if (set.isHeld) {
        if (pinned) {
          val untilNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(conf.plannerTimeoutMs)
          tasks.foreach(set.pins.put(_, Pin(executor, untilNs)))
        }
        if (tasks.nonEmpty) counters.groupsLaunched.incrementAndGet()
        if (set.held.isEmpty) dropHold(set)
        scheduler.backend.reviveOffers()
      }
    }

  /** Not while tasks are pinned: Spark would then wait `spark.locality.wait` for their executors first. */
  private def resetLocality(set: HeldSet): Unit = if (set.pins.isEmpty) PendingLists.resetLocality(set.manager)

  /** Gives all that is held back to Spark: by `rank`, or in Spark's own order. */
  private def giveBack(set: HeldSet, rank: Array[Int]): Unit =
    if (set.isHeld) {
      scheduler.synchronized {
        if (!set.manager.isZombie) {
          set.lists.putBack(set.manager.pendingTasks, set.held.get, rank)
          resetLocality(set)
        }
        dropHold(set)
      }
      scheduler.backend.reviveOffers()
    }

  private def dropHold(set: HeldSet): Unit = {
    set.lists = null
    set.held.clear()
    set.timers.values.foreach(_.future.cancel(false))
    set.timers.clear()
  }

  /** Something is late or wrong: exactly what Spark would do, for what is left of the set. */
  def fallBack(set: HeldSet, why: String): Unit =
    if (set.isHeld) {
      counters.fallbacks.incrementAndGet()
      logInfo(s"dagopt gives ${set.key} back to Spark: $why")
      scheduler.synchronized(concurrency.reset(set.manager))
      giveBack(set, null)
    }

  /** The planner did not answer for a set in time; a planner that does so again and again is dead. */
  def missed(set: HeldSet, why: String): Unit = {
    fallBack(set, why)
    // Sets that wait at the same time are missed by one and the same silence.
    if (unanswered == 0 || set.submittedNs - missedNs > 0) {
      unanswered += 1
      missedNs = System.nanoTime()
    }
    if (unanswered >= Gate.MaxUnanswered) {
      switch.turnOff(s"the planner did not answer $unanswered times in a row within ${conf.plannerTimeoutMs} ms")
    }
  }

  /** Dagopt goes off: every set is Spark's again. Any thread. */
  def releaseAll(why: String): Unit = {
    cpuLimit.releaseAll()
    try timer.execute(new Runnable {
      // Not guarded by the switch, which is off already: each set has to get its chance.
      def run(): Unit = all.foreach { set =>
        try {
          expirePins(set, _ => true)
          scheduler.synchronized(concurrency.reset(set.manager))
          fallBack(set, why)
        } catch { case t: Throwable => logWarning(s"dagopt could not give back ${set.key}", t) }
        sets.remove(set.key)
      }
    }) catch { case _: RejectedExecutionException => }
  }

  /** Pins of tasks that were started are done with. Tasks whose executor did not start them in
   * time, or has gone, may run anywhere. */
  def expirePins(set: HeldSet, expired: Pin => Boolean): Unit = if (set.pins.nonEmpty) {
    val again = scheduler.synchronized {
      val over = set.pins.toSeq.filter { case (task, pin) =>
        expired(pin) || !PendingLists.startable(set.manager, task)
      }
      over.foreach { case (task, pin) =>
        set.pins.remove(task)
        PendingLists.unpin(set.manager, task, pin.executor)
      }
      val waiting = over.map(_._1).filter(PendingLists.startable(set.manager, _)).sorted.toArray
      if (waiting.nonEmpty && !set.manager.isZombie) {
        PendingLists.add(set.manager, waiting)
        resetLocality(set)
        counters.pinsExpired.addAndGet(waiting.length)
      }
      waiting.nonEmpty
    }
    if (again) scheduler.backend.reviveOffers()
  }

  def executorRemoved(executor: String): Unit = post("an executor that has gone") {
    all.foreach(expirePins(_, _.executor == executor))
  }

  /** The stage attempt ended, or Spark gave the task set up: it is forgotten at once. */
  def setEnded(key: SetKey, ok: Boolean): Unit =
    if (sets.containsKey(key)) post("the end of a task set")(Option(sets.get(key)).foreach(forget(_, tell = true, ok)))

  def forget(set: HeldSet, tell: Boolean, ok: Boolean = false): Unit = {
    set.ended = true
    dropHold(set)
    set.pins.clear()
    if (sets.remove(set.key, set) && tell) set.tell(planner, Messages.taskSetEnded(set.key, ok))
  }
}

private[dagopt] object Gate {
  private val StreamingProperties = Seq("streaming.sql.batchId", "sql.streaming.queryId")
  private val MaxUnanswered = 3

  private def daemons(name: String, stackBytes: Long): ThreadFactory = new ThreadFactory {
    def newThread(r: Runnable): Thread = {
      val thread = new Thread(null, r, name, stackBytes)
      thread.setDaemon(true)
      thread
    }
  }
}
