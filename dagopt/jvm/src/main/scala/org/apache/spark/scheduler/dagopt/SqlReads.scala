package org.apache.spark.scheduler.dagopt

import org.apache.spark.Partition
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.{CoalescedMapperPartitionSpec, CoalescedPartitionSpec, PartialMapperPartitionSpec, PartialReducerPartitionSpec, ShufflePartitionSpec}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition

/** Maps `firstMap` until `endMap` (all if [[TaskReads.AllMaps]]) and reducers `firstReducer` until `endReducer`. */
private[dagopt] final case class ShuffleRange(firstMap: Int, endMap: Int, firstReducer: Int, endReducer: Int) {
  /** How many maps, 0 for all. */
  def maps: Int = if (endMap == TaskReads.AllMaps) 0 else endMap - firstMap
}

/** The partitions of Spark SQL: what adaptive execution made of a shuffle, and file scans. */
private[dagopt] object SqlReads {

  /** Null if the partition does not belong to a `ShuffledRowRDD`. */
  def shuffleRange(partition: Partition, numReducers: Int): ShuffleRange = partition match {
    // ShuffledRowRDDPartition is private to its file, but a case class: (index, spec).
    case p: Product if p.productArity == 2 =>
      p.productElement(1) match {
        case spec: ShufflePartitionSpec => range(spec, numReducers)
        case _ => null
      }
    case _ => null
  }

  private def range(spec: ShufflePartitionSpec, numReducers: Int): ShuffleRange = spec match {
    case s: CoalescedPartitionSpec => ShuffleRange(0, TaskReads.AllMaps, s.startReducerIndex, s.endReducerIndex)
    case s: PartialReducerPartitionSpec => ShuffleRange(s.startMapIndex, s.endMapIndex, s.reducerIndex, s.reducerIndex + 1)
    case s: PartialMapperPartitionSpec => ShuffleRange(s.mapIndex, s.mapIndex + 1, s.startReducerIndex, s.endReducerIndex)
    case s: CoalescedMapperPartitionSpec => ShuffleRange(s.startMapIndex, s.endMapIndex, 0, numReducers)
    case _ => null
  }

  /** (hosts of the replicas, bytes) of each part; None if the source does not tell its sizes. */
  def sourceReads(partition: Partition): Option[Seq[(Seq[String], Double)]] = partition match {
    case p: FilePartition => Some(fileReads(p))
    case p: DataSourceRDDPartition => all(SourcePartitions.of(p).map(inputReads))
    case _ => None
  }

  private def inputReads(input: InputPartition): Option[Seq[(Seq[String], Double)]] = input match {
    case p: FilePartition => Some(fileReads(p))
    case _ => None
  }

  private def all[A](parts: Seq[Option[Seq[A]]]): Option[Seq[A]] =
    if (parts.forall(_.isDefined)) Some(parts.flatMap(_.get)) else None

  private def fileReads(p: FilePartition): Seq[(Seq[String], Double)] =
    p.files.toSeq.map(file => (file.locations.toSeq.filter(_ != "localhost"), file.length.toDouble))
}
