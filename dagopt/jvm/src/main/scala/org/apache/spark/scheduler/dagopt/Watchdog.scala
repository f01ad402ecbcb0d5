package org.apache.spark.scheduler.dagopt

import java.util.concurrent.TimeUnit

/**
 * Enforces the deadlines of everything that is held, and sees that the planner is alive while
 * something is. Looks every [[Watchdog.PeriodMs]]; on the gate's thread.
 */
private[dagopt] final class Watchdog(gate: Gate) {
  import gate.{conf, counters, executors, planner, scheduler}

  private val timeoutNs = TimeUnit.MILLISECONDS.toNanos(conf.plannerTimeoutMs)
  private val maxDelayNs = TimeUnit.MILLISECONDS.toNanos(conf.maxDelayMs)
  private val pingEveryNs = math.max(timeoutNs / 4, TimeUnit.MILLISECONDS.toNanos(50))
  private var lastTickNs = System.nanoTime()
  private var lastPingNs = 0L
  /** When the ping was sent that has no line after it; 0 if every ping has. */
  private var openPingNs = 0L
  private var pings = 0L

  /** A line of the planner was acted on. */
  def heard(): Unit = openPingNs = 0L

  def tick(nowNs: Long): Unit = {
    // After a pause of this JVM the planner's lines lie unread: it has not missed anything.
    val paused = nowNs - lastTickNs > TimeUnit.MILLISECONDS.toNanos(Watchdog.PeriodMs) + timeoutNs / 2
    val sinceLastMs = TimeUnit.NANOSECONDS.toMillis(nowNs - lastTickNs)
    lastTickNs = nowNs
    counters.tasksHeldNow.set(gate.all.filter(_.isHeld).map(_.held.cardinality.toLong).sum)
    if (gate.isFollowed) {
      gate.all.foreach(check(_, nowNs, paused))
      val held = gate.all.filter(_.isHeld).toSeq
      if (held.isEmpty) openPingNs = 0L
      else {
        checkPlanner(held, nowNs, paused)
        checkIdle(held, nowNs, sinceLastMs)
      }
    }
  }

  private def check(set: HeldSet, nowNs: Long, paused: Boolean): Unit = {
    val (zombie, running) = scheduler.synchronized((set.manager.isZombie, set.manager.runningTasks))
    // Its end is told by the listener bus too, which may lose events.
    if (zombie && (set.isHeld || running == 0 && over(set, nowNs))) gate.forget(set, tell = true)
    else {
      gate.expirePins(set, _.untilNs < nowNs)
      if (set.isHeld && !set.planned && !paused) checkPlan(set, nowNs)
      if (set.isHeld && set.planned) checkStuck(set, running, nowNs)
    }
  }

  /** A set that is done is left a while, for the events of its last tasks to come. */
  private def over(set: HeldSet, nowNs: Long): Boolean = {
    if (set.stuckSinceNs == 0L) set.stuckSinceNs = nowNs
    nowNs - set.stuckSinceNs > Watchdog.GraceNs
  }

  private def checkPlan(set: HeldSet, nowNs: Long): Unit =
    if (set.toldNs == 0L) {
      if (nowNs - set.submittedNs > timeoutNs) gate.fallBack(set, "its inputs took too long to sum")
    } else if (nowNs - set.toldNs > timeoutNs) {
      gate.missed(set, s"no plan within ${conf.plannerTimeoutMs} ms")
    }

  /** Tasks are held, and nothing that is under way will ever start the next ones. */
  private def checkStuck(set: HeldSet, running: Int, nowNs: Long): Unit =
    if (running > 0 || set.timers.nonEmpty || waiting(set) > 0) set.stuckSinceNs = 0L
    else if (set.stuckSinceNs == 0L) set.stuckSinceNs = nowNs
    else if (nowNs - set.stuckSinceNs > timeoutNs) gate.fallBack(set, "tasks are held and none runs")

  /** Tasks that Spark may start and has not started. */
  private def waiting(set: HeldSet): Int = scheduler.synchronized {
    (0 until set.numTasks).count(task => !set.held.get(task) && PendingLists.startable(set.manager, task))
  }

  private def checkPlanner(held: Seq[HeldSet], nowNs: Long, paused: Boolean): Unit = {
    if (openPingNs != 0L && planner.lastLineNs - openPingNs >= 0) openPingNs = 0L
    if (openPingNs == 0L) {
      if (nowNs - lastPingNs >= pingEveryNs) {
        pings += 1
        planner.send(Messages.ping(pings))
        lastPingNs = nowNs
        openPingNs = nowNs
      }
    } else if (nowNs - openPingNs > timeoutNs && !paused) {
      openPingNs = 0L
      gate.missed(held.head, s"no line of the planner for ${conf.plannerTimeoutMs} ms")
      held.tail.foreach(gate.fallBack(_, "the planner is silent"))
    } else if (paused) openPingNs = nowNs
  }

  private def checkIdle(held: Seq[HeldSet], nowNs: Long, sinceLastMs: Long): Unit = {
    val idle = executors.cores - scheduler.runningTasksByExecutors.values.sum
    held.filter(set => set.isHeld && set.planned).foreach { set =>
      if (idle <= 0 || waiting(set) > 0) set.idleSinceNs = 0L
      else {
        counters.idleHoldMs.addAndGet((math.min(idle, set.held.cardinality) * sinceLastMs).toLong)
        if (set.idleSinceNs == 0L) set.idleSinceNs = nowNs
        else if (nowNs - set.idleSinceNs > maxDelayNs) gate.fallBack(set, s"cores idle for ${conf.maxDelayMs} ms")
      }
    }
  }
}

private[dagopt] object Watchdog {
  val PeriodMs = 100L
  private val GraceNs = TimeUnit.SECONDS.toNanos(5)
}
