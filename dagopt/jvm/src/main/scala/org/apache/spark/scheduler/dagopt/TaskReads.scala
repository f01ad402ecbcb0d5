package org.apache.spark.scheduler.dagopt

import scala.collection.mutable

import org.apache.spark._
import org.apache.spark.rdd._
import org.apache.spark.storage.{BlockManagerMaster, RDDBlockId, StorageLevel}

/**
 * What each task of a stage reads, found by walking from its partition through the narrow
 * dependencies to shuffles, sources and cached blocks. Blocks of shuffles are named, not summed:
 * `shuffleReads` holds, for each read, the task, the shuffle and the ranges of maps and reducers.
 *
 * The walk of one task takes at most [[TaskReads.MaxSteps]] steps; what lies behind is left out and
 * told by `partial`, as is every input of a kind that is not understood.
 *
 * '''Threads.''' One. Takes no lock of the scheduler.
 */
private[dagopt] final class TaskReads(lineage: Lineage, blocks: BlockManagerMaster, hosts: Hosts) {
  import TaskReads._

  /** Rows of (task, index of the shuffle, first map, end of maps or -1 for all, first reducer, end of reducers). */
  val shuffleReads = new mutable.ArrayBuffer[Array[Int]]
  /** Rows of (task, host, bytes) of files and cached blocks. */
  val placedReads = new mutable.ArrayBuffer[(Int, Int, Double)]
  var partial = false
  val kinds = new mutable.LinkedHashSet[String]

  private val shuffleIndex = lineage.shuffles.map(_.shuffleId).zipWithIndex.toMap
  private val cachedBlocks = new mutable.HashMap[Int, CachedBlocks]
  private var steps = 0
  private var visited: mutable.HashSet[Long] = _

  def walk(task: Int, partition: Int): Unit = {
    steps = 0
    visited = null
    walk(lineage.last, partition, task)
  }

  private def walk(from: RDD[_], fromPartition: Int, task: Int): Unit = {
    var rdd: RDD[_] = from
    var partition = fromPartition
    while (rdd != null) {
      steps += 1
      if (steps > MaxSteps) { partial = true; return }
      if (cachedRead(rdd, partition, task)) return
      val dependencies = rdd.dependencies
      if (dependencies.isEmpty) { source(rdd, partition, task); return }
      if (dependencies.length == 1) {
        dependencies.head match {
          case shuffle: ShuffleDependency[_, _, _] => shuffleRead(rdd, partition, shuffle, task); return
          case one: OneToOneDependency[_] => rdd = one.rdd
          case narrow: NarrowDependency[_] =>
            val parents = narrow.getParents(partition)
            if (parents.isEmpty) return
            if (parents.length == 1) { rdd = narrow.rdd; partition = parents.head }
            else { parents.foreach(branch(narrow.rdd, _, task)); return }
          case _ => partial = true; return
        }
      } else {
        rdd.partitions(partition) match {
          // A union of thousands has as many dependencies: its partition knows the one that counts.
          case p: UnionPartition[_] if isUnion(rdd) =>
            rdd = dependencies(p.parentRddIndex).rdd
            partition = p.parentPartition.index
          case _ =>
            dependencies.foreach {
              case shuffle: ShuffleDependency[_, _, _] => shuffleRead(rdd, partition, shuffle, task)
              case narrow: NarrowDependency[_] => narrow.getParents(partition).foreach(branch(narrow.rdd, _, task))
              case _ => partial = true
            }
            return
        }
      }
    }
  }

  /** Where paths part they may meet again; without `visited` a ladder of joins takes 2^n steps. */
  private def branch(rdd: RDD[_], partition: Int, task: Int): Unit = {
    if (visited == null) visited = new mutable.HashSet[Long]
    if (visited.add((rdd.id.toLong << 32) | partition)) walk(rdd, partition, task)
  }

  private def isUnion(rdd: RDD[_]): Boolean = rdd match {
    case union: UnionRDD[_] => union.rdds != null && union.rdds.length == union.dependencies.length
    case _ => false
  }

  private def shuffleRead(
      rdd: RDD[_], partition: Int, shuffle: ShuffleDependency[_, _, _], task: Int): Unit = {
    val reducers = shuffle.partitioner.numPartitions
    val range = SqlReads.shuffleRange(rdd.partitions(partition), reducers)
    if (range != null) {
      kinds += (if (range.maps > 0 && range.maps <= NarrowMaps) "narrow" else "wide")
      shuffleReads += Array(task, shuffleIndex(shuffle.shuffleId), range.firstMap, range.endMap,
        range.firstReducer, range.endReducer)
    } else if (rdd.partitions.length == reducers) {
      kinds += "wide"
      shuffleReads += Array(task, shuffleIndex(shuffle.shuffleId), 0, AllMaps, partition, partition + 1)
    } else partial = true
  }

  private def cachedRead(rdd: RDD[_], partition: Int, task: Int): Boolean =
    rdd.getStorageLevel != StorageLevel.NONE && {
      val cached = cachedBlocks.getOrElseUpdate(rdd.id, new CachedBlocks(rdd, blocks))
      val locations = cached.hosts(partition)
      if (locations.nonEmpty) {
        kinds += "narrow"
        place(task, locations, cached.bytes(partition))
      }
      locations.nonEmpty
    }

  private def source(rdd: RDD[_], partition: Int, task: Int): Unit =
    sourceReads(rdd, rdd.partitions(partition)) match {
      case Some(reads) =>
        reads.foreach { case (locations, bytes) =>
          kinds += "source"
          place(task, locations, bytes)
        }
      case None => partial = true
    }

  /** The reader takes one of the replicas; which one is not known, so each counts for its part. */
  private def place(task: Int, locations: Seq[String], bytes: Double): Unit =
    if (locations.isEmpty) placedReads += ((task, hosts.index(hosts.Nowhere), bytes))
    else locations.foreach(host => placedReads += ((task, hosts.index(host), bytes / locations.length)))
}

private[dagopt] object TaskReads {
  /** In place of the end of a range of maps. */
  val AllMaps: Int = -1
  private val MaxSteps = 20000
  /** A read of so few map outputs is local rather than all-to-all (adaptive execution's local reader). */
  private val NarrowMaps = 4
  private val MaxAskedSizes = 64

  /** False for an RDD without parents that certainly reads nothing: its data travels with the task. */
  def mayRead(rdd: RDD[_]): Boolean = rdd match {
    case _: ParallelCollectionRDD[_] | _: EmptyRDD[_] => false
    case _ => true
  }

  /** (hosts of the replicas, bytes) of each part of a source partition; None if not understood. */
  private def sourceReads(rdd: RDD[_], partition: Partition): Option[Seq[(Seq[String], Double)]] =
    partition match {
      case _ if !mayRead(rdd) => Some(Nil)
      case p: HadoopPartition =>
        val split = p.inputSplit.value
        Some(Seq((split.getLocations.toSeq, split.getLength.toDouble)))
      case p: NewHadoopPartition =>
        val split = p.serializableHadoopSplit.value
        Some(Seq((split.getLocations.toSeq, split.getLength.toDouble)))
      case p => SqlReads.sourceReads(p)
    }

  /**
   * Where the blocks of a cached RDD are. Asks the block manager's endpoint, which is in this JVM;
   * the sizes of at most [[MaxAskedSizes]] blocks, the mean of which stands for the others.
   */
  private final class CachedBlocks(rdd: RDD[_], master: BlockManagerMaster) {
    private val ids = rdd.partitions.indices.map(RDDBlockId(rdd.id, _)).toArray
    private val locations = master.getLocations(ids.toArray[org.apache.spark.storage.BlockId])
    private val known = {
      val stored = ids.indices.filter(locations(_).nonEmpty)
      MapOutputs.spread(stored.length, MaxAskedSizes).map(stored(_)).map { i =>
        val sizes = master.getBlockStatus(ids(i), askStorageEndpoints = false).values
          .map(status => (status.memSize + status.diskSize).toDouble)
        i -> (if (sizes.isEmpty) 0.0 else sizes.max)
      }.toMap
    }
    private val mean = if (known.isEmpty) 0.0 else known.values.sum / known.size

    def hosts(partition: Int): Seq[String] = locations(partition).map(_.host).distinct.toSeq
    def bytes(partition: Int): Double = known.getOrElse(partition, mean)
  }
}
