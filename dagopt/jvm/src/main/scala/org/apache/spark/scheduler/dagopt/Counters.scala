package org.apache.spark.scheduler.dagopt

import java.lang.management.ManagementFactory
import java.util.concurrent.atomic.AtomicLong

/** What the gate did, for the report. Counts, ns where the name says so. Any thread. */
private[dagopt] final class Counters {
  val taskSetsSeen = new AtomicLong()
  val taskSetsHeld = new AtomicLong()
  val tasksHeld = new AtomicLong()
  val groupsLaunched = new AtomicLong()
  /** Task sets that were given back to Spark because something was late or wrong. */
  val fallbacks = new AtomicLong()
  val messagesDropped = new AtomicLong()
  /** Tasks that are held, as the watchdog saw it last. */
  val tasksHeldNow = new AtomicLong()
  /** What the planner counted, as it told it last. */
  @volatile var told: Answer.Counts = Answer.Counts(0, 0, 0, 0, 0, 0, 0)
  val pinsExpired = new AtomicLong()
  /** Core-milliseconds in which a core had nothing to run while a task was held. */
  val idleHoldMs = new AtomicLong()
  val gateNsTotal = new AtomicLong()
  val gateNsMax = new AtomicLong()
  val gateNsLast = new AtomicLong()
  val gateCpuNsLast = new AtomicLong()
  val gateCpuNsMax = new AtomicLong()

  private val threads = ManagementFactory.getThreadMXBean
  private val timesCpu = threads.isCurrentThreadCpuTimeSupported && threads.isThreadCpuTimeEnabled

  /** CPU time of the current thread, or 0 where the JVM does not count it. */
  def cpuNs(): Long = if (timesCpu) threads.getCurrentThreadCpuTime else 0L

  /**
   * Time that `addTaskSetManager` spent in dagopt, on Spark's scheduling thread. On a busy machine
   * that thread waits for a core, so its CPU time is counted as well.
   */
  def gateTook(ns: Long, cpuNs: Long): Unit = {
    gateNsTotal.addAndGet(ns)
    gateNsLast.set(ns)
    gateCpuNsLast.set(cpuNs)
    raise(gateNsMax, ns)
    raise(gateCpuNsMax, cpuNs)
  }

  private def raise(max: AtomicLong, value: Long): Unit = {
    var known = max.get
    while (value > known && !max.compareAndSet(known, value)) known = max.get
  }

  /** What an operator wants to know when the application has ended. */
  def summary: String =
    s"dagopt at the end: ${taskSetsSeen.get} task sets seen, ${taskSetsHeld.get} held, " +
      s"${groupsLaunched.get} groups launched, ${fallbacks.get} released without an answer"

  def toSeq: Seq[(String, Long)] = Seq(
    "task_sets_seen" -> taskSetsSeen.get,
    "task_sets_held" -> taskSetsHeld.get,
    "tasks_held" -> tasksHeld.get,
    "tasks_held_now" -> tasksHeldNow.get,
    "groups_launched" -> groupsLaunched.get,
    "fallbacks" -> fallbacks.get,
    "pins_expired" -> pinsExpired.get,
    "idle_hold_ms" -> idleHoldMs.get,
    "gate_ns_max" -> gateNsMax.get,
    "gate_ns_last" -> gateNsLast.get,
    "gate_cpu_ns_last" -> gateCpuNsLast.get,
    "gate_cpu_ns_max" -> gateCpuNsMax.get,
    "gate_ns_total" -> gateNsTotal.get,
    "messages_dropped" -> messagesDropped.get)
}
