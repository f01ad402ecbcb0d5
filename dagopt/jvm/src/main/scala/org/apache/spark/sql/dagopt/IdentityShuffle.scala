package org.apache.spark.sql.dagopt

import org.apache.spark.{FutureAction, HashPartitioner, MapOutputTrackerMaster, ShuffleDependency, SparkContext, SparkEnv}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.scheduler.dagopt.{GpuStages, LostQueries}
import org.apache.spark.shuffle.sort.SortShuffleManager
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.{PartialMapperPartitionSpec, ShuffledRowRDD, ShufflePartitionSpec, UnsafeRowSerializer}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics, SQLShuffleReadMetricsReporter, SQLShuffleWriteMetricsReporter}
import org.apache.spark.util.MutablePair

/**
 * A shuffle that moves nothing: each task writes its partition as one block, and the task of the
 * same partition behind it reads this block alone. Rows keep their partition and their order by
 * construction, the block's host is the preferred location whatever the number of partitions
 * (Spark looks no further than 1000 of them where a task reads from all maps), and nothing grows
 * with the square of that number. The shuffle itself has a single reducer; what is read is a range
 * of maps, as when adaptive execution reads a shuffle locally.
 */
private[dagopt] final class IdentityShuffle(
    input: RDD[InternalRow], columns: Seq[Attribute], metrics: IdentityShuffle.Metrics, names: IdentityShuffle.Names) {

  private val dependency: ShuffleDependency[Int, InternalRow, InternalRow] = {
    val pairs = IdentityShuffle.pairs(input, columns)
    names.writing.foreach(name => pairs.setName(name))
    val made = new ShuffleDependency[Int, InternalRow, InternalRow](
      pairs,
      new HashPartitioner(1),
      new UnsafeRowSerializer(columns.length, metrics.dataSize),
      shuffleWriterProcessor = ShuffleExchangeExec.createShuffleWriteProcessor(metrics.write))
    // Merged blocks could not be told apart by their map.
    made.setShuffleMergeAllowed(false)
    made
  }

  def id: Int = dependency.shuffleId

  /** The rows of `input`, read from the shuffle. */
  val rows: RDD[InternalRow] = new SamePartitions(
    dependency,
    metrics.read,
    Array.tabulate[ShufflePartitionSpec](input.getNumPartitions)(map => PartialMapperPartitionSpec(map, 0, 1)),
    input.outputDeterministicLevel)
  names.reading.foreach(name => rows.setName(name))

  /** Starts a job that writes it, with the properties of this thread. */
  def start(): FutureAction[_] = {
    val sc = input.sparkContext
    sc.setLocalProperty(LostQueries.OfSlice, "true")
    try sc.submitMapStage(dependency) finally sc.setLocalProperty(LostQueries.OfSlice, null)
  }

  /** Partitions that are written. */
  def numWritten: Int =
    SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster].getNumAvailableOutputs(id)
}

private[dagopt] object IdentityShuffle {

  /** A shuffle manager other than Spark's may not read a range of maps, or may keep rows and not bytes. */
  def isPossible: Boolean = SparkEnv.get.shuffleManager.isInstanceOf[SortShuffleManager]

  /** None if it cannot be made: then the stage is not cut here. */
  def apply(input: RDD[InternalRow], columns: Seq[Attribute], metrics: Metrics, names: Names): Option[IdentityShuffle] =
    try Some(new IdentityShuffle(input, columns, metrics, names))
    catch { case t: Throwable => GpuStages.failed("inserting a shuffle", t); None }

  /** Of the RDDs at its ends, by which stages are known again in an event log. */
  final case class Names(writing: Option[String], reading: Option[String])

  /** What the shuffles of one operator add to its metrics. */
  final class Metrics(sc: SparkContext) {
    val dataSize: SQLMetric = SQLMetrics.createSizeMetric(sc, "data size")
    val write: Map[String, SQLMetric] = SQLShuffleWriteMetricsReporter.createShuffleWriteMetrics(sc)
    val read: Map[String, SQLMetric] = SQLShuffleReadMetricsReporter.createShuffleReadMetrics(sc)
    def all: Map[String, SQLMetric] = Map("dataSize" -> dataSize) ++ read ++ write
  }

  private def pairs(input: RDD[InternalRow], columns: Seq[Attribute]): RDD[Product2[Int, InternalRow]] = {
    val types = columns.map(_.dataType).toArray
    input.mapPartitionsInternal { rows =>
      lazy val toUnsafe = UnsafeProjection.create(types)
      // The writer serialises a pair before it asks for the next one.
      val pair = new MutablePair[Int, InternalRow]()
      rows.map {
        case row: UnsafeRow => pair.update(0, row)
        case row => pair.update(0, toUnsafe(row))
      }
    }
  }
}

/** Recomputing a block gives the same rows if recomputing its partition did without the shuffle. */
private final class SamePartitions(
    dependency: ShuffleDependency[Int, InternalRow, InternalRow],
    metrics: Map[String, SQLMetric],
    specs: Array[ShufflePartitionSpec],
    level: DeterministicLevel.Value) extends ShuffledRowRDD(dependency, metrics, specs) {
  override protected def getOutputDeterministicLevel: DeterministicLevel.Value = level
}
