package org.apache.spark.scheduler.dagopt

import org.apache.spark.executor.TaskMetrics

private[dagopt] object RunTime {
  /** Whether Spark tells how long a task's Python worker took to start. */
  val tellsStarts = true

  /** Time that a task ran: from Spark 4.0 on its time, deserialising included, is multiplied by its cpus. */
  def ms(metrics: TaskMetrics, cpus: Double): Long = {
    val deserializeMs = metrics.executorDeserializeTime
    math.max(0L, math.round((metrics.executorRunTime + deserializeMs) / cpus) - deserializeMs)
  }
}
