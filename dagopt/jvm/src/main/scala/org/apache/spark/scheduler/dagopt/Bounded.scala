package org.apache.spark.scheduler.dagopt

import java.util.{LinkedHashMap, Map => JMap}

/** A map of at most so many entries; the one that was put first goes first. */
private[dagopt] final class Bounded[K, V](most: Int) extends LinkedHashMap[K, V] {
  override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > most
}
