package org.apache.spark.scheduler.dagopt

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
  val pinsExpired = new AtomicLong()
  /** Core-milliseconds in which a core had nothing to run while a task was held. */
  val idleHoldMs = new AtomicLong()
  val gateNsTotal = new AtomicLong()
  val gateNsMax = new AtomicLong()

  /** Time that `addTaskSetManager` spent in dagopt, on Spark's scheduling thread. */
  def gateTook(ns: Long): Unit = {
    gateNsTotal.addAndGet(ns)
    var max = gateNsMax.get
    while (ns > max && !gateNsMax.compareAndSet(max, ns)) max = gateNsMax.get
  }

  def toSeq: Seq[(String, Long)] = Seq(
    "task_sets_seen" -> taskSetsSeen.get,
    "task_sets_held" -> taskSetsHeld.get,
    "tasks_held" -> tasksHeld.get,
    "groups_launched" -> groupsLaunched.get,
    "fallbacks" -> fallbacks.get,
    "pins_expired" -> pinsExpired.get,
    "idle_hold_ms" -> idleHoldMs.get,
    "gate_ns_max" -> gateNsMax.get,
    "gate_ns_total" -> gateNsTotal.get,
    "messages_dropped" -> messagesDropped.get)
}
