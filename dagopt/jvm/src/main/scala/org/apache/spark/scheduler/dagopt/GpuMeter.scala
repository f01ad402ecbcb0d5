package org.apache.spark.scheduler.dagopt

import java.util.{LinkedHashMap, Map => JMap}
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.scheduler.{StageInfo, TaskInfo}

/** The RDD of the GPU operator of a slice, and the shuffles around it; -1 for one that is not there. */
private[spark] final case class GpuParts(gpuRdd: Int, before: Int, after: Int)

/** Sums over the tasks of a stage that ended well. Times in ms, of which Spark counts some in ns. */
private[dagopt] final class TaskSums {
  var tasks = 0L
  /** From launch to end: as long as a task holds what it asked for. */
  var heldMs = 0L
  var runMs = 0L
  /** Of it, starting Python workers: the first tasks of an application wait for that, later ones do not. */
  var startMs = 0L
  var readMs = 0L
  var writeNs = 0L
  var bytesRead = 0L
  var localBytesRead = 0L
  var bytesWritten = 0L

  def add(info: TaskInfo, metrics: TaskMetrics): Unit = {
    tasks += 1
    heldMs += info.duration
    runMs += metrics.executorRunTime
    startMs += info.accumulables.filter(a => a.name.exists(TaskSums.Starts)).flatMap(_.update).collect {
      case ms: Long => math.max(0L, ms)
    }.sum
    readMs += metrics.shuffleReadMetrics.fetchWaitTime
    writeNs += metrics.shuffleWriteMetrics.writeTime
    bytesRead += metrics.shuffleReadMetrics.totalBytesRead
    localBytesRead += metrics.shuffleReadMetrics.localBytesRead
    bytesWritten += metrics.shuffleWriteMetrics.bytesWritten
  }
}

private[dagopt] object TaskSums {
  /** Spark's metrics of operators that run Python, in ms; they have no names in code that are public. */
  private val Starts: Set[String] = Set("time to start Python workers", "time to initialize Python workers")
}

/**
 * Adds up what the stages of GPU operators took, and tells the planner when a GPU stage is done.
 *
 * '''Threads.''' `watch` and `await` on those that plan queries, the rest on the listener bus.
 */
private[dagopt] final class GpuMeter(planner: PlannerProcess) {
  private final class Slice(val id: Long, val slice: Int, val parts: GpuParts) {
    val cpu = new TaskSums
    val gpu = new TaskSums
  }

  private val byShuffle = GpuMeter.bounded[Int, Slice]
  private val byRdd = GpuMeter.bounded[Int, Slice]
  private val byStage = GpuMeter.bounded[Int, (Slice, TaskSums)]
  private val told = new ConcurrentHashMap[Long, CountDownLatch]()

  def watch(id: Long, slice: Int, parts: GpuParts): Unit = synchronized {
    val watched = new Slice(id, slice, parts)
    if (parts.before >= 0) byShuffle.put(parts.before, watched)
    byRdd.put(parts.gpuRdd, watched)
    told.put(id, new CountDownLatch(1))
    if (told.size > GpuMeter.Most) told.clear()
  }

  def await(id: Long, timeoutMs: Long): Unit = {
    val latch = told.get(id)
    if (latch != null) latch.await(timeoutMs, TimeUnit.MILLISECONDS)
  }

  def submitted(stage: StageInfo): Unit = synchronized {
    if (!byRdd.isEmpty) {
      val cpuOf = stage.shuffleDepId.map(byShuffle.get).orNull
      if (cpuOf != null) byStage.put(stage.stageId, (cpuOf, cpuOf.cpu))
      else stage.rddInfos.find(rdd => byRdd.containsKey(rdd.id)).foreach { rdd =>
        val gpuOf = byRdd.get(rdd.id)
        byStage.put(stage.stageId, (gpuOf, gpuOf.gpu))
      }
    }
  }

  def taskEnded(stage: Int, info: TaskInfo, metrics: TaskMetrics): Unit = synchronized {
    val found = byStage.get(stage)
    if (found != null && info.successful && metrics != null) found._2.add(info, metrics)
  }

  def completed(stage: StageInfo): Unit = synchronized {
    val found = byStage.remove(stage.stageId)
    if (found != null && stage.failureReason.isEmpty && (found._2 eq found._1.gpu)) {
      val slice = found._1
      planner.send(Messages.sliceDone(slice.id, slice.slice, slice.parts, slice.cpu, slice.gpu))
      val latch = told.remove(slice.id)
      if (latch != null) latch.countDown()
    }
  }
}

private[dagopt] object GpuMeter {
  private val Most = 10000

  private def bounded[K, V]: LinkedHashMap[K, V] = new LinkedHashMap[K, V] {
    override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > Most
  }
}
