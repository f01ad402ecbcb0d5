package org.apache.spark.scheduler.dagopt

import org.apache.spark.executor.TaskMetrics

private[dagopt] object RunTime {
  /** Whether Spark tells how long a task's Python worker took to start. */
  val tellsStarts = false

  /** Time that a task ran. */
  def ms(metrics: TaskMetrics, cpus: Double): Long = metrics.executorRunTime
}
