package org.apache.spark.scheduler.dagopt

import java.util.{LinkedHashMap, Map => JMap}
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.scheduler.{StageInfo, TaskInfo}

/**
 * The RDDs and shuffles of a slice; -1 for one that is not there.
 *
 * @param gpuRdd of the GPU operator's rows
 * @param before the shuffle in front of it
 * @param after the shuffle behind it
 * @param behind of the rows that are read from that one
 * @param total partitions of the whole operator
 */
private[spark] final case class GpuParts(gpuRdd: Int, before: Int, after: Int, behind: Int, total: Int)

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
  /** Of those tasks that started no worker: what the first one in a process loads is not in them. */
  var warmTasks = 0L
  var warmRunMs = 0L
  var warmReadMs = 0L
  var warmWriteNs = 0L

  def add(info: TaskInfo, metrics: TaskMetrics): Unit = {
    tasks += 1
    heldMs += info.duration
    runMs += metrics.executorRunTime
    val startedMs = info.accumulables.filter(a => a.name.exists(TaskSums.Starts)).flatMap(_.update).collect {
      case ms: Long => math.max(0L, ms)
    }.sum
    startMs += startedMs
    if (startedMs == 0) {
      warmTasks += 1
      warmRunMs += metrics.executorRunTime
      warmReadMs += metrics.shuffleReadMetrics.fetchWaitTime
      warmWriteNs += metrics.shuffleWriteMetrics.writeTime
    }
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
    val rest = new TaskSums
  }

  private val byShuffle = GpuMeter.bounded[Int, Slice]
  private val byRdd = GpuMeter.bounded[Int, Slice]
  private val byBehind = GpuMeter.bounded[Int, Slice]
  private val byStage = GpuMeter.bounded[Int, (Slice, TaskSums)]
  private val told = new ConcurrentHashMap[Long, CountDownLatch]()

  def watch(id: Long, slice: Int, parts: GpuParts): Unit = synchronized {
    val watched = new Slice(id, slice, parts)
    if (parts.before >= 0) byShuffle.put(parts.before, watched)
    byRdd.put(parts.gpuRdd, watched)
    if (parts.behind >= 0) byBehind.put(parts.behind, watched)
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
      else {
        val gpuOf = first(stage, byRdd)
        val restOf = first(stage, byBehind)
        if (gpuOf != null) byStage.put(stage.stageId, (gpuOf, gpuOf.gpu))
        // Other rows may be read in the same stage; then its tasks tell nothing.
        else if (restOf != null && restOf.parts.total == stage.numTasks) byStage.put(stage.stageId, (restOf, restOf.rest))
      }
    }
  }

  private def first(stage: StageInfo, from: JMap[Int, Slice]): Slice = {
    val found = stage.rddInfos.find(rdd => from.containsKey(rdd.id))
    found.map(rdd => from.get(rdd.id)).orNull
  }

  def taskEnded(stage: Int, info: TaskInfo, metrics: TaskMetrics): Unit = synchronized {
    val found = byStage.get(stage)
    if (found != null && info.successful && metrics != null) found._2.add(info, metrics)
  }

  def completed(stage: StageInfo): Unit = synchronized {
    val found = byStage.remove(stage.stageId)
    if (found != null && stage.failureReason.isEmpty && (found._2 eq found._1.rest)) {
      planner.send(Messages.restDone(found._1.id, found._2))
    } else if (found != null && stage.failureReason.isEmpty && (found._2 eq found._1.gpu)) {
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
