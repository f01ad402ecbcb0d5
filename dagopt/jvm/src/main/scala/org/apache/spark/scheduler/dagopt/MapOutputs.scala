package org.apache.spark.scheduler.dagopt

import org.apache.spark.MapOutputTrackerMaster
import org.apache.spark.scheduler.{CompressedMapStatus, MapStatus}

/**
 * Where the map outputs of one shuffle lie and how large their blocks are: a copy of the tracker's
 * statuses, read without its lock.
 *
 * @param hostOf for each map, the index of its host in the table of hosts; -1 if the output is lost
 */
private[dagopt] final class MapOutputs private (
    val numReducers: Int,
    val hostOf: Array[Int],
    statuses: Array[MapStatus],
    compressed: Array[Array[Byte]]) {

  def numMaps: Int = statuses.length

  /** Bytes of blocks `from` to `until` of one map. */
  def bytes(map: Int, from: Int, until: Int): Double = {
    var sum = 0.0
    val sizes = compressed(map)
    var reducer = from
    if (sizes != null) {
      while (reducer < until) { sum += MapOutputs.Sizes(sizes(reducer) & 0xff); reducer += 1 }
    } else if (statuses(map) != null) {
      while (reducer < until) { sum += statuses(map).getSizeForBlock(reducer); reducer += 1 }
    }
    sum
  }

  /** `count` maps of every host (all, if a host has fewer), evenly spread over its maps, and for
   * each of them how many maps of its host it stands for. */
  def sampleByHost(count: Int): (Array[Int], Array[Double]) = {
    val byHost = (0 until numMaps).filter(hostOf(_) >= 0).groupBy(hostOf(_)).toSeq.sortBy(_._1)
    val chosen = byHost.map { case (_, maps) =>
      val picks = MapOutputs.spread(maps.length, count).map(maps(_))
      (picks, picks.map(_ => maps.length.toDouble / picks.length))
    }
    (chosen.flatMap(_._1).toArray, chosen.flatMap(_._2).toArray)
  }
}

private[dagopt] object MapOutputs {

  /**
   * What a compressed size byte stands for, in bytes. Spark rounds the logarithm to base 1.1 up,
   * so its own `decompressSize` is 4.9 % too large on average. That is taken off here: the sum
   * over many blocks then fits what a task really fetches, and the end of a fetch can be told by it.
   */
  val Sizes: Array[Double] = Array.tabulate(256) { code =>
    val size = MapStatus.decompressSize(code.toByte).toDouble
    if (code < 2) size else size * math.log(1.1) / 0.1
  }

  private val sizesField =
    try {
      val field = classOf[CompressedMapStatus].getDeclaredField("compressedSizes")
      field.setAccessible(true)
      field
    } catch { case _: ReflectiveOperationException => null }

  /** `count` of the numbers 0 until n, evenly spread; all of them if there are no more. */
  def spread(n: Int, count: Int): IndexedSeq[Int] =
    if (n <= count) 0 until n
    else (0 until count).map(i => (i.toLong * n / count).toInt)

  /** The bytes of all blocks, told by those of `side` maps and `side` reducers. */
  def estimate(statuses: Array[MapStatus], numReducers: Int, side: Int): Double = {
    val maps = math.min(side, statuses.length)
    val reducers = math.min(side, numReducers)
    var bytes = 0.0
    var seen = 0
    var i = 0
    while (i < maps) {
      val status = statuses((i.toLong * statuses.length / maps).toInt)
      var j = 0
      while (j < reducers && status != null) {
        bytes += status.getSizeForBlock((j.toLong * numReducers / reducers).toInt)
        seen += 1
        j += 1
      }
      i += 1
    }
    if (seen == 0) 0.0 else bytes * statuses.length * numReducers / seen
  }

  /** None if the tracker does not know the shuffle (any more). */
  def of(tracker: MapOutputTrackerMaster, shuffleId: Int, numReducers: Int, hosts: Hosts): Option[MapOutputs] =
    tracker.shuffleStatuses.get(shuffleId).map { status =>
      val statuses = status.withMapStatuses((all: Array[MapStatus]) => all.clone())
      val hostOf = statuses.map { s =>
        val location = if (s == null) null else s.location
        if (location == null) -1 else hosts.index(location.host)
      }
      val compressed = statuses.map {
        case s: CompressedMapStatus if sizesField != null => sizesField.get(s).asInstanceOf[Array[Byte]]
        case _ => null
      }
      new MapOutputs(numReducers, hostOf, statuses, compressed)
    }
}

/** Host names and their indexes, in the order in which they were met. One thread. */
private[dagopt] final class Hosts {
  private val indexes = new java.util.LinkedHashMap[String, Integer]()

  /** The host of what lies on no host in particular: an object store, a file system of every host. */
  val Nowhere = ""

  def index(host: String): Int = {
    val name = if (host == null || host == "localhost") Nowhere else host
    val known = indexes.get(name)
    if (known != null) known.intValue
    else { indexes.put(name, indexes.size); indexes.size - 1 }
  }

  def size: Int = indexes.size
  def names: Array[String] = indexes.keySet.toArray(new Array[String](0))
}
