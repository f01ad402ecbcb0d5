package org.apache.spark.scheduler.dagopt

import org.apache.spark.resource.TaskResourceRequests
import org.apache.spark.scheduler.{TaskSchedulerImpl, TaskSet}

/** From Spark 4.3 a task may take a fraction of a cpu. */
private[dagopt] object TaskCpus {

  def ofDefaultTask(scheduler: TaskSchedulerImpl): Double = scheduler.CPUS_PER_TASK.toDouble

  /** The cpus of a task when `tasksPerCore` of them take what a default task takes. */
  def share(defaultCpus: Double, tasksPerCore: Int): Double = defaultCpus / tasksPerCore

  def requests(cpus: Double): TaskResourceRequests = new TaskResourceRequests().cpus(cpus)

  /** Why no task can take less than a default task, or "". */
  def cannotShare(defaultCpus: Double): String = ""

  /** A pipelined task set runs beside the one that feeds it, and must get its slots at once. */
  def isPipelined(taskSet: TaskSet): Boolean = taskSet.isPipelined
}
