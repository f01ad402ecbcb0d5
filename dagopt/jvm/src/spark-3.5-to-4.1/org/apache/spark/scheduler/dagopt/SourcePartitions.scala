package org.apache.spark.scheduler.dagopt

import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition

/** Up to Spark 4.1 a partition of a data source scan groups several input partitions. */
private[dagopt] object SourcePartitions {
  def of(partition: DataSourceRDDPartition): Seq[InputPartition] = partition.inputPartitions.toSeq
}
