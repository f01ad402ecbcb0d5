package org.apache.spark.scheduler.dagopt

import org.apache.spark.resource.TaskResourceRequests
import org.apache.spark.scheduler.{TaskSchedulerImpl, TaskSet}

/** Up to Spark 4.2 a task takes a whole number of cpus. */
private[dagopt] object TaskCpus {

  def ofDefaultTask(scheduler: TaskSchedulerImpl): Double = scheduler.CPUS_PER_TASK.toDouble

  /** The cpus of a task when `tasksPerCore` of them take what a default task takes: rounded up, so
   * that there are never more of them than asked for. */
  def share(defaultCpus: Double, tasksPerCore: Int): Double = math.ceil(defaultCpus / tasksPerCore)

  def requests(cpus: Double): TaskResourceRequests = new TaskResourceRequests().cpus(cpus.toInt)

  /** Why no task can take less than a default task, or "". */
  def cannotShare(defaultCpus: Double): String =
    if (defaultCpus > 1) ""
    else "spark.task.cpus is 1: before Spark 4.3 it must be the number of tasks that may share a core " +
      "(dagopt.configure, dagopt conf and dagopt submit set it)"

  /** Pipelined shuffles came with 4.3. */
  def isPipelined(taskSet: TaskSet): Boolean = false
}
