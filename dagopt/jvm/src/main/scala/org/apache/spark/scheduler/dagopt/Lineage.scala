package org.apache.spark.scheduler.dagopt

import scala.collection.mutable

import org.apache.spark.{MapOutputTrackerMaster, ShuffleDependency}
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel

/**
 * The RDDs that a stage computes in one go, from its last RDD down to what it reads. Found by RDD,
 * not by partition: it is what can be afforded on Spark's scheduling thread.
 *
 * @param rdds of the stage, the last one first
 * @param tooLong there were more RDDs than were looked at
 */
private[dagopt] final class Lineage private (
    val last: RDD[_],
    val rdds: Seq[RDD[_]],
    val shuffles: Seq[ShuffleDependency[_, _, _]],
    val sources: Seq[RDD[_]],
    val anyCached: Boolean,
    tooLong: Boolean) {

  /** False if no task reads anything whose place or size could be known. */
  def reads: Boolean = shuffles.nonEmpty || sources.nonEmpty || anyCached || tooLong

  /**
   * Whether the inputs are so few that they can be summed at once, on the scheduling thread: at
   * most [[Lineage.SmallProduct]] blocks, and as many steps through the lineage.
   */
  def isSmall(tracker: MapOutputTrackerMaster, numTasks: Int): Boolean =
    !anyCached && !tooLong && sources.isEmpty && rdds.length <= Lineage.SmallDepth &&
      numTasks.toLong * rdds.length <= Lineage.SmallProduct &&
      shuffles.map(s => numMaps(tracker, s).toLong * s.partitioner.numPartitions).sum <= Lineage.SmallProduct

  /**
   * An estimate of the bytes that all tasks read, from a few hundred blocks; None if an input is
   * no shuffle. Spares the many small stages of a query the way to another thread and back.
   */
  def estimatedShuffleBytes(tracker: MapOutputTrackerMaster): Option[Double] =
    if (anyCached || tooLong || sources.nonEmpty) None
    else Some(shuffles.map { shuffle =>
      // The more shuffles, the fewer blocks of each, so that a union of hundreds costs no more.
      val side = math.max(2, (Lineage.SampledSide / math.sqrt(shuffles.length.toDouble)).toInt)
      tracker.shuffleStatuses.get(shuffle.shuffleId).fold(0.0) { status =>
        status.withMapStatuses(MapOutputs.estimate(_, shuffle.partitioner.numPartitions, side))
      }
    }.sum)

  private def numMaps(tracker: MapOutputTrackerMaster, shuffle: ShuffleDependency[_, _, _]): Int =
    tracker.shuffleStatuses.get(shuffle.shuffleId).fold(0)(_.mapStatuses.length)
}

private[dagopt] object Lineage {
  val SmallProduct = 4096L
  /** The walk may be recursive, and the stack of that thread is not ours. */
  private val SmallDepth = 200
  /** Of one shuffle so many maps and so many reducers are looked at. */
  private val SampledSide = 16
  private val MaxRdds = 1000

  def of(last: RDD[_]): Lineage = {
    val seen = mutable.HashSet[Int](last.id)
    val rdds = mutable.ArrayBuffer[RDD[_]](last)
    val shuffles = mutable.ArrayBuffer[ShuffleDependency[_, _, _]]()
    val shuffleIds = mutable.HashSet[Int]()
    val sources = mutable.ArrayBuffer[RDD[_]]()
    var cached = false
    var next = 0
    while (next < rdds.length && rdds.length <= MaxRdds) {
      val rdd = rdds(next)
      if (rdd.getStorageLevel != StorageLevel.NONE) cached = true
      val dependencies = rdd.dependencies
      if (dependencies.isEmpty && TaskReads.mayRead(rdd)) sources += rdd
      dependencies.foreach {
        case shuffle: ShuffleDependency[_, _, _] => if (shuffleIds.add(shuffle.shuffleId)) shuffles += shuffle
        case narrow => if (seen.add(narrow.rdd.id)) rdds += narrow.rdd
      }
      next += 1
    }
    new Lineage(last, rdds.toSeq, shuffles.toSeq, sources.toSeq, cached, rdds.length > MaxRdds)
  }
}
