package org.apache.spark.scheduler.dagopt

import java.util.{Map => JMap}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{TaskContext, TaskFailedReason}
import org.apache.spark.api.plugin.{ExecutorPlugin, PluginContext}

/**
 * Sees on the executor how far the running tasks have come with reading their input. The planner
 * starts the next group when the fetch of this one is over, and Spark itself tells the bytes of a
 * task only when it ends, or at heartbeats ten seconds apart.
 *
 * '''Wire.''' A message is (executor id, rows of [[Probe.Columns]] numbers): stage, attempt,
 * partition, bytes, 1 if the bytes stand still, ms since they last grew. Plain arrays, since the class loader of the driver's
 * endpoint need not know this jar. At most [[Probe.MaxPerSecond]] messages a second, none while
 * nothing changes; a fetch that has come to a stand is told at once, progress at intervals.
 *
 * '''Threads.''' `onTask...` on the task's thread. One daemon samples; it reads numbers that the
 * executor's heartbeat reads in the same way.
 */
private[dagopt] final class Probe extends ExecutorPlugin {
  import Probe._

  private val tasks = new ConcurrentHashMap[Thread, Running]()
  private var context: PluginContext = _
  private var intervalMs = 0L
  @volatile private var sampler: Thread = _
  /** When the last messages were sent, a ring of `System.nanoTime`. The sampler's thread. */
  private val sentNs = new Array[Long](MaxPerSecond)
  private var numSent = 0

  override def init(context: PluginContext, extraConf: JMap[String, String]): Unit =
    try {
      val interval = extraConf.get(IntervalKey)
      if (interval != null) {
        this.context = context
        intervalMs = interval.toLong
        val thread = new Thread(new Runnable { def run(): Unit = sampleForEver() }, "dagopt-probe")
        thread.setDaemon(true)
        sampler = thread
        thread.start()
      }
    } catch { case _: Throwable => stop() }

  override def onTaskStart(): Unit =
    if (sampler != null) {
      try {
        val task = TaskContext.get()
        if (task != null) tasks.put(Thread.currentThread(), new Running(task))
      } catch { case _: Throwable => stop() }
    }

  override def onTaskSucceeded(): Unit = forget()
  override def onTaskFailed(reason: TaskFailedReason): Unit = forget()
  override def shutdown(): Unit = stop()

  private def forget(): Unit =
    try tasks.remove(Thread.currentThread()) catch { case _: Throwable => stop() }

  private def stop(): Unit = {
    val thread = sampler
    sampler = null
    tasks.clear()
    if (thread != null) thread.interrupt()
  }

  private def sampleForEver(): Unit =
    try while (sampler != null) {
      Thread.sleep(SampleMs)
      if (!tasks.isEmpty) sample(System.nanoTime())
    } catch { case _: Throwable => stop() }

  private def sample(nowNs: Long): Unit = {
    var urgent = false
    var due = false
    val all = tasks.values.iterator()
    while (all.hasNext) {
      val task = all.next()
      if (task.context.isCompleted()) all.remove()
      else {
        task.sample(nowNs)
        urgent ||= task.stopped && !task.stopTold
        due ||= task.bytes != task.bytesTold
      }
    }
    val lastMs = (nowNs - (if (numSent == 0) 0L else sentNs((numSent - 1) % MaxPerSecond))) / 1000000
    // Progress takes no more than its share of the messages, so that there is one for an end.
    if (mayUse(nowNs, MaxPerSecond) && (urgent ||
        due && (numSent == 0 || lastMs >= intervalMs) && mayUse(nowNs, MaxPerSecond - 2))) {
      send(nowNs)
    }
  }

  /** Whether fewer than `count` messages were sent within the last second. */
  private def mayUse(nowNs: Long, count: Int): Boolean =
    numSent < count || nowNs - sentNs((numSent - count) % MaxPerSecond) >= 1000000000L

  private def send(nowNs: Long): Unit = {
    val rows = new scala.collection.mutable.ArrayBuilder.ofLong
    tasks.values.forEach { task =>
      val newlyStopped = task.stopped && !task.stopTold
      if (newlyStopped || task.bytes != task.bytesTold) {
        val c = task.context
        rows += c.stageId().toLong
        rows += c.stageAttemptNumber().toLong
        rows += c.partitionId().toLong
        rows += task.bytes
        rows += (if (task.stopped) 1L else 0L)
        rows += (nowNs - task.grownNs) / 1000000
        task.told()
      }
    }
    context.send(Array[AnyRef](context.executorID(), rows.result()))
    sentNs(numSent % MaxPerSecond) = nowNs
    numSent += 1
  }
}

private[dagopt] object Probe {
  /** The interval in ms, in what the driver's `init` hands to the executors; absent if the probe is off. */
  val IntervalKey = "probe.interval.ms"
  val Columns = 6
  private val SampleMs = 50L
  private val MaxPerSecond = 5
  /** Samples without growth after which bytes stand still. */
  private val StillSamples = 2

  /** A running task, as the sampler last saw it. The sampler's thread. */
  private final class Running(val context: TaskContext) {
    var bytes = 0L
    var bytesTold = 0L
    var stopTold = false
    var grownNs = 0L
    private var still = 0

    def stopped: Boolean = still >= StillSamples

    def sample(nowNs: Long): Unit = {
      val metrics = context.taskMetrics()
      // Readers count apart and their numbers are merged when somebody asks; the heartbeat does it too.
      metrics.mergeShuffleReadMetrics()
      val now = metrics.shuffleReadMetrics.totalBytesRead + metrics.inputMetrics.bytesRead
      if (now != bytes) { bytes = now; grownNs = nowNs; still = 0; stopTold = false }
      else if (bytes > 0 && still < StillSamples) still += 1
    }

    def told(): Unit = { bytesTold = bytes; stopTold = stopped }
  }
}
