package org.apache.spark.scheduler.dagopt

import org.apache.spark.executor.TaskMetrics

private[dagopt] object RunTime {
  /** Time that a task ran. */
  def ms(metrics: TaskMetrics, cpus: Double): Long = metrics.executorRunTime
}
