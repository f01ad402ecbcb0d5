package org.apache.spark.scheduler.dagopt

import java.util.{Map => JMap}
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap}

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

  /** @param cpus of the task */
  def add(info: TaskInfo, metrics: TaskMetrics, cpus: Double): Unit = {
    val ranMs = RunTime.ms(metrics, cpus)
    tasks += 1
    heldMs += info.duration
    runMs += ranMs
    val startedMs = info.accumulables.filter(a => a.name.exists(TaskSums.Starts)).flatMap(_.update).collect {
      case ms: Long => math.max(0L, ms)
    }.sum
    startMs += startedMs
    if (startedMs == 0) {
      warmTasks += 1
      warmRunMs += ranMs
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
  private val Starts: Set[String] = Set("time to start Python workers")
}

/**
 * Adds up what the stages of GPU operators took, and tells the planner when a GPU stage is done.
 *
 * @param cpusOf what a task of the resource profile with this id takes
 *
 * '''Threads.''' `watch` and `measured` on those that plan queries, the rest on the listener bus.
 */
private[dagopt] final class GpuMeter(planner: PlannerProcess, cpusOf: Int => Double) {
  /** @param tellAfter how many GPU tasks are told of before the others have ended; 0 for none */
  private final class Slice(val id: Long, val slice: Int, val parts: GpuParts, val tellAfter: Int) {
    /** Since they were last told: an RDD may be computed by several jobs. */
    var cpu = new TaskSums
    var gpu = new TaskSums
    var rest = new TaskSums
    var cpuOnly = new TaskSums
  }

  private final case class Watched(cpus: Double, sums: Seq[(Slice, TaskSums)])

  private val byShuffle = new Bounded[Int, Slice](GpuMeter.Most)
  private val byRdd = new Bounded[Int, Slice](GpuMeter.Most)
  private val byCpuOnly = new Bounded[Int, Slice](GpuMeter.Most)
  private val byBehind = new Bounded[Int, Slice](GpuMeter.Most)
  private val byStage = new Bounded[Int, Watched](GpuMeter.Most)
  private val told = new ConcurrentHashMap[Long, CompletableFuture[Unit]]()

  def watch(form: GpuForm, slice: Int, parts: GpuParts): Unit = synchronized {
    val watched = new Slice(form.id, slice, parts, form.measureTasks)
    if (parts.before >= 0) byShuffle.put(parts.before, watched)
    byRdd.put(parts.gpuRdd, watched)
    if (parts.behind >= 0) byBehind.put(parts.behind, watched)
    if (form.askAgain) told.put(form.id, new CompletableFuture[Unit]())
    if (told.size > GpuMeter.Most) told.clear()
  }

  def watchCpuOnly(id: Long, slice: Int, shuffle: Int): Unit = synchronized {
    byCpuOnly.put(shuffle, new Slice(id, slice, GpuMeter.NoParts, tellAfter = 2))
  }

  /** When what a slice took was told, of a form that asks again. */
  def measured(id: Long): CompletableFuture[Unit] = told.getOrDefault(id, CompletableFuture.completedFuture(()))

  /** A stage may be the GPU part of one operator, or what follows it, and the CPU part of the next one. */
  def submitted(stage: StageInfo): Unit = synchronized {
    if (!byRdd.isEmpty) {
      val cpuOf = stage.shuffleDepId.flatMap(shuffle => Option(byShuffle.get(shuffle)))
      val cpuOnlyOf = stage.shuffleDepId.flatMap(shuffle => Option(byCpuOnly.get(shuffle)))
      val gpuOf = first(stage, byRdd)
      // Other rows may be read in the same stage; then its tasks tell nothing.
      val restOf = first(stage, byBehind).filter(_.parts.total == stage.numTasks)
      val sums = cpuOf.map(of => (of, of.cpu)) ++ gpuOf.map(of => (of, of.gpu)) ++ restOf.map(of => (of, of.rest)) ++
        cpuOnlyOf.map(of => (of, of.cpuOnly))
      if (sums.nonEmpty) byStage.put(stage.stageId, Watched(cpusOf(stage.resourceProfileId), sums.toSeq))
    }
  }

  private def first(stage: StageInfo, from: JMap[Int, Slice]): Option[Slice] =
    stage.rddInfos.find(rdd => from.containsKey(rdd.id)).map(rdd => from.get(rdd.id))

  def taskEnded(stage: Int, info: TaskInfo, metrics: TaskMetrics): Unit = synchronized {
    val found = byStage.get(stage)
    if (found != null && info.successful && metrics != null) {
      found.sums.foreach { case (slice, sums) =>
        sums.add(info, metrics, found.cpus)
        if (sums.tasks == slice.tellAfter) {
          if (sums eq slice.gpu) tell(slice, partial = true)
          else if (sums eq slice.cpuOnly) planner.send(Messages.cpuOnlyDone(slice.id, slice.slice, sums))
        }
      }
    }
  }

  def completed(stage: StageInfo): Unit = synchronized {
    val found = byStage.remove(stage.stageId)
    if (found != null && stage.failureReason.isEmpty) found.sums.foreach { case (slice, sums) =>
      if (sums eq slice.rest) {
        planner.send(Messages.restDone(slice.id, sums))
        slice.rest = new TaskSums
      } else if (sums eq slice.gpu) {
        tell(slice, partial = false)
        slice.cpu = new TaskSums
        slice.gpu = new TaskSums
      } else if (sums eq slice.cpuOnly) {
        planner.send(Messages.cpuOnlyDone(slice.id, slice.slice, sums))
        slice.cpuOnly = new TaskSums
      }
    }
  }

  private def tell(slice: Slice, partial: Boolean): Unit = {
    planner.send(Messages.sliceDone(slice.id, slice.slice, slice.parts, slice.cpu, slice.gpu, partial))
    val waiting = told.remove(slice.id)
    if (waiting != null) waiting.complete(())
  }
}

private[dagopt] object GpuMeter {
  private val Most = 10000
  private val NoParts = GpuParts(-1, -1, -1, -1, 0)
}
