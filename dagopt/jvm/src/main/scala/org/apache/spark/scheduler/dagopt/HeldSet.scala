package org.apache.spark.scheduler.dagopt

import java.util.BitSet
import java.util.concurrent.ScheduledFuture

import scala.collection.mutable

import org.apache.spark.scheduler.{StageInfo, TaskSetManager}

/**
 * A task set that the planner was told of, and what is held of it.
 *
 * '''Life.''' Made when Spark submits the task set; `held` empties as groups are launched; the
 * object goes when the stage attempt has ended.
 *
 * '''Threads.''' Fields below belong to the gate's thread, except where said. Nothing but
 * [[PendingLists]] touches the manager's lists, always under the scheduler's lock.
 *
 * @param holds false in mode explain, and where the planner said that it would pass the set anyway: the
 *              planner is told and answers, and nothing is held
 */
private[dagopt] final class HeldSet(
    val key: SetKey,
    val manager: TaskSetManager,
    val holds: Boolean,
    val stage: StageInfo,
    val submittedMs: Long,
    val canRaise: Boolean) {

  val submittedNs: Long = System.nanoTime()
  def numTasks: Int = manager.numTasks

  /** Indexes of the tasks that are in none of the manager's lists because of us. */
  val held = new BitSet(if (holds) numTasks else 0)
  /** What the manager's lists were; null once nothing is held. */
  var lists: PendingLists = _
  /** When the planner was told, `System.nanoTime`; 0 before. */
  var toldNs = 0L
  var planned = false
  /** Groups whose launch waits for its timer. */
  val timers = new mutable.HashMap[Int, Timer]
  val pins = new mutable.HashMap[Int, Pin]
  /** Since when nothing of it ran, or could; 0 if something does. */
  var stuckSinceNs = 0L
  /** Since when cores were idle; 0 if none is. */
  var idleSinceNs = 0L
  /** The stage attempt is over. Any thread reads it. */
  @volatile var ended = false

  def isHeld: Boolean = lists != null

  // Events of its tasks, from the listener bus and the executors' probes, may come before the
  // message that introduces the set to the planner: they wait for it.
  private var told = false
  private val early = new mutable.ArrayBuffer[Array[Byte]]

  /** Sends the set's own message, then what waited for it. False if it was dropped. Any thread. */
  def introduce(planner: PlannerProcess, message: Array[Byte]): Boolean = synchronized {
    told = planner.send(message)
    if (told) early.foreach(planner.send)
    early.clear()
    told
  }

  /** Sends an event of the set, not before the set's own message. Any thread. */
  def tell(planner: PlannerProcess, message: Array[Byte]): Unit = synchronized {
    if (told) planner.send(message)
    else if (early.length < HeldSet.MaxEarly) early += message
  }

  // Of each task: bytes that its inputs say it reads, and whether its fetch was told to be done.
  @volatile private var expected: Array[Double] = _
  private val fetched = new BitSet

  def expect(taskBytes: Array[Double]): Unit = expected = taskBytes

  /**
   * Whether `bytes` are all that the task fetches. Block sizes are known to some 5 %, so a fetch
   * that came near what was expected and stands still counts as done.
   */
  def fetchDone(task: Int, bytes: Long, standsStill: Boolean): Boolean = {
    val all = expected
    all != null && all(task) > 0 &&
      (bytes >= all(task) * 0.98 || standsStill && bytes >= all(task) * 0.85)
  }

  /** True the first time that it is asked for the task. */
  def firstDone(task: Int): Boolean = synchronized { val first = !fetched.get(task); fetched.set(task); first }
  def wasDone(task: Int): Boolean = synchronized(fetched.get(task))
  /** A new attempt of the task fetches anew. */
  def notDone(task: Int): Unit = synchronized(fetched.clear(task))
}

private[dagopt] object HeldSet {
  private val MaxEarly = 10000
}

/** A group of tasks that is launched when its timer fires. */
private[dagopt] final class Timer(
    val tasks: Array[Int], val executor: String, val future: ScheduledFuture[_])

/** A task that only one executor may start, and until when (`System.nanoTime`). */
private[dagopt] final case class Pin(executor: String, untilNs: Long)
