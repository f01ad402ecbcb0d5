package org.apache.spark.scheduler.dagopt

import scala.collection.mutable

import com.fasterxml.jackson.core.JsonGenerator

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{TaskSchedulerImpl, TaskSetManager}

/**
 * The bytes that each task of a task set reads from each host. Shapes: T tasks, H hosts.
 *
 * @param taskBytes [T] bytes of each task from all hosts
 * @param hostBytes [H] bytes of each host for all tasks
 * @param offsets [T+1] into `hostIndexes` and `bytes`; null if only the two sums are known, because
 *   a table of them all would be too large. Then bytes[t,h] ~ taskBytes[t] * hostBytes[h] / total.
 * @param kinds of the inputs: "wide" a shuffle read from (nearly) all maps, "narrow" cached blocks
 *   and local shuffle reads, "source" files and Hadoop splits
 * @param partial an input of some task was of a kind that is not understood
 */
private[dagopt] final class TaskInputs(
    val hosts: Array[String],
    val taskBytes: Array[Double],
    val hostBytes: Array[Double],
    val offsets: Array[Int],
    val hostIndexes: Array[Int],
    val bytes: Array[Double],
    val kinds: Seq[String],
    val partial: Boolean) {

  def total: Double = taskBytes.sum

  def write(json: JsonGenerator): Unit = {
    Wire.strings(json, "shuffle_types", kinds)
    json.writeBooleanField("partial", partial)
    Wire.strings(json, "hosts", hosts)
    json.writeObjectFieldStart("inputs")
    if (offsets == null) {
      json.writeStringField("kind", "outer")
      Wire.bytes(json, "task_bytes", taskBytes)
      Wire.bytes(json, "host_bytes", hostBytes)
    } else {
      json.writeStringField("kind", "sparse")
      Wire.ints(json, "offsets", offsets)
      Wire.ints(json, "hosts", hostIndexes)
      Wire.bytes(json, "bytes", bytes)
    }
    json.writeEndObject()
  }
}

/** Sums [[TaskInputs]]. Small ones may be summed on Spark's scheduling thread, others not. */
private[dagopt] final class Inputs(sc: SparkContext, scheduler: TaskSchedulerImpl) {
  import Inputs._

  private val tracker = scheduler.mapOutputTracker

  /**
   * Whether all tasks together certainly read less than `minBytes`, as far as that can be told at
   * once: by a generous estimate, then, where blocks are few, exactly. False if somebody must go
   * and look.
   */
  def isSmall(lineage: Lineage, manager: TaskSetManager, minBytes: Long): Boolean =
    lineage.estimatedShuffleBytes(tracker).exists(_ * EstimateMargin < minBytes) ||
      minBytes > 0 && lineage.isSmall(tracker, manager.numTasks) && of(lineage, manager).total < minBytes

  def of(lineage: Lineage, manager: TaskSetManager): TaskInputs = {
    val hosts = new Hosts
    val reads = new TaskReads(lineage, sc.env.blockManager.master, hosts)
    var task = 0
    while (task < manager.numTasks) {
      reads.walk(task, manager.tasks(task).partitionId)
      task += 1
    }
    val outputs = lineage.shuffles.map { shuffle =>
      MapOutputs.of(tracker, shuffle.shuffleId, shuffle.partitioner.numPartitions, hosts).orNull
    }.toArray
    val known = reads.shuffleReads.filter(read => outputs(read(Shuffle)) != null)
    val partial = reads.partial || known.length < reads.shuffleReads.length
    known.foreach { read =>
      if (read(EndMap) == TaskReads.AllMaps) read(EndMap) = outputs(read(Shuffle)).numMaps
    }
    sum(manager.numTasks, hosts, outputs, known.toArray, reads, partial)
  }

  private def sum(
      numTasks: Int,
      hosts: Hosts,
      outputs: Array[MapOutputs],
      shuffleReads: Array[Array[Int]],
      reads: TaskReads,
      partial: Boolean): TaskInputs = {
    val numHosts = hosts.size
    var entries = reads.placedReads.length.toLong
    var blocks = 0L
    var reducers = 0L
    shuffleReads.foreach { read =>
      entries += math.min(numHosts, read(EndMap) - read(FirstMap))
      reducers += read(EndReducer) - read(FirstReducer)
      blocks += (read(EndMap) - read(FirstMap)).toLong * (read(EndReducer) - read(FirstReducer))
    }
    val kinds = Seq("wide", "narrow", "source").filter(reads.kinds.contains)
    if (entries > MaxEntries) {
      val (taskBytes, hostBytes) = margins(numTasks, numHosts, outputs, shuffleReads, reads, blocks)
      new TaskInputs(hosts.names, taskBytes, hostBytes, null, null, null, kinds, partial)
    } else {
      val perHost =
        if (blocks <= MaxEvaluations) Int.MaxValue
        else math.max(1, (MaxEvaluations / reducers / math.max(1, numHosts)).toInt)
      table(numTasks, hosts, outputs, shuffleReads, reads, perHost, kinds, partial)
    }
  }

  /** The whole table, row by row; of each host at most `mapsPerHost` maps stand for the others. */
  private def table(
      numTasks: Int,
      hosts: Hosts,
      outputs: Array[MapOutputs],
      shuffleReads: Array[Array[Int]],
      reads: TaskReads,
      mapsPerHost: Int,
      kinds: Seq[String],
      partial: Boolean): TaskInputs = {
    val samples = outputs.map(o => if (o == null || mapsPerHost == Int.MaxValue) null else o.sampleByHost(mapsPerHost))
    val taskBytes = new Array[Double](numTasks)
    val hostBytes = new Array[Double](hosts.size)
    val offsets = new Array[Int](numTasks + 1)
    val hostIndexes = new mutable.ArrayBuilder.ofInt
    val bytes = new mutable.ArrayBuilder.ofDouble
    // Reads were found task by task, so both lists are sorted by task.
    val row = new Row(hosts.size)
    var entries = 0
    var nextShuffle = 0
    var nextPlaced = 0
    var task = 0
    while (task < numTasks) {
      while (nextShuffle < shuffleReads.length && shuffleReads(nextShuffle)(Task) == task) {
        val read = shuffleReads(nextShuffle)
        val output = outputs(read(Shuffle))
        val sample = samples(read(Shuffle))
        if (sample != null && read(EndMap) - read(FirstMap) == output.numMaps) {
          addSample(row, output, read, sample)
        } else {
          var map = read(FirstMap)
          while (map < read(EndMap)) {
            if (output.hostOf(map) >= 0) {
              row.add(output.hostOf(map), output.bytes(map, read(FirstReducer), read(EndReducer)))
            }
            map += 1
          }
        }
        nextShuffle += 1
      }
      while (nextPlaced < reads.placedReads.length && reads.placedReads(nextPlaced)._1 == task) {
        val (_, host, size) = reads.placedReads(nextPlaced)
        row.add(host, size)
        nextPlaced += 1
      }
      row.drain { (host, size) =>
        hostIndexes += host
        bytes += size
        entries += 1
        taskBytes(task) += size
        hostBytes(host) += size
      }
      task += 1
      offsets(task) = entries
    }
    new TaskInputs(hosts.names, taskBytes, hostBytes, offsets, hostIndexes.result(), bytes.result(), kinds, partial)
  }

  private def addSample(
      row: Row, output: MapOutputs, read: Array[Int], sample: (Array[Int], Array[Double])): Unit = {
    val (maps, weights) = sample
    var i = 0
    while (i < maps.length) {
      row.add(output.hostOf(maps(i)), weights(i) * output.bytes(maps(i), read(FirstReducer), read(EndReducer)))
      i += 1
    }
  }

  /**
   * The sums by task and by host. Each needs a sample of its own: for the tasks a few maps and all
   * reducers, for the hosts all maps and a few reads.
   */
  private def margins(
      numTasks: Int,
      numHosts: Int,
      outputs: Array[MapOutputs],
      shuffleReads: Array[Array[Int]],
      reads: TaskReads,
      blocks: Long): (Array[Double], Array[Double]) = {
    val taskBytes = new Array[Double](numTasks)
    val hostBytes = new Array[Double](numHosts)
    val share = math.min(1.0, MaxEvaluations.toDouble / math.max(1L, blocks))
    shuffleReads.foreach { read =>
      val output = outputs(read(Shuffle))
      val maps = read(EndMap) - read(FirstMap)
      val count = math.max(1, (maps * share).toInt)
      var i = 0
      var sum = 0.0
      while (i < count) {
        val map = read(FirstMap) + (i.toLong * maps / count).toInt
        sum += output.bytes(map, read(FirstReducer), read(EndReducer))
        i += 1
      }
      taskBytes(read(Task)) += sum * maps / count
    }
    val chosen = MapOutputs.spread(shuffleReads.length, math.max(1, (shuffleReads.length * share).toInt))
    chosen.foreach { i =>
      val read = shuffleReads(i)
      val output = outputs(read(Shuffle))
      val weight = shuffleReads.length.toDouble / chosen.length
      var map = read(FirstMap)
      while (map < read(EndMap)) {
        val host = output.hostOf(map)
        if (host >= 0) hostBytes(host) += weight * output.bytes(map, read(FirstReducer), read(EndReducer))
        map += 1
      }
    }
    reads.placedReads.foreach { case (task, host, size) =>
      taskBytes(task) += size
      hostBytes(host) += size
    }
    (taskBytes, hostBytes)
  }
}

private[dagopt] object Inputs {
  // Columns of a shuffle read, see TaskReads.shuffleReads.
  private val Task = 0
  private val Shuffle = 1
  private val FirstMap = 2
  private val EndMap = 3
  private val FirstReducer = 4
  private val EndReducer = 5

  /** One row of the table. Costs what is in it, not how many hosts there are. */
  private final class Row(numHosts: Int) {
    private val sums = new Array[Double](numHosts)
    private val touched = new Array[Int](numHosts)
    private var count = 0

    def add(host: Int, bytes: Double): Unit =
      if (bytes > 0) {
        if (sums(host) == 0.0) { touched(count) = host; count += 1 }
        sums(host) += bytes
      }

    /** Hands over the entries by host, and starts anew. */
    def drain(entry: (Int, Double) => Unit): Unit = {
      java.util.Arrays.sort(touched, 0, count)
      var i = 0
      while (i < count) {
        entry(touched(i), sums(touched(i)))
        sums(touched(i)) = 0.0
        i += 1
      }
      count = 0
    }
  }

  /** A table of T x H with more entries is told by its two sums. */
  private val MaxEntries = 200000L
  /** Block sizes that are looked at; 4 million take some 50 ms. */
  private val MaxEvaluations = 4000000L
  /** Data may be unlike the few blocks of the estimate: let it be eight times as much. */
  private val EstimateMargin = 8.0
}
