package org.apache.spark.scheduler.dagopt

import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition

/** From Spark 4.2 a partition of a data source scan has at most one input partition. */
private[dagopt] object SourcePartitions {
  def of(partition: DataSourceRDDPartition): Seq[InputPartition] = partition.inputPartition.toSeq
}
