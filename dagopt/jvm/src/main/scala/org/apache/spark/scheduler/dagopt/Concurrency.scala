package org.apache.spark.scheduler.dagopt

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.resource.{ResourceProfile, TaskResourceProfile}
import org.apache.spark.scheduler.{TaskSchedulerImpl, TaskSet, TaskSetManager}

/**
 * How many tasks of a stage run on a core at once. Raised by giving its task set a task-only
 * resource profile with fewer cpus, so that Spark's own accounting of cores enforces it, on every
 * executor and across stages. A task set that dagopt lets go, or never touched, has the default
 * profile: exactly Spark's own concurrency.
 *
 * Profiles are interned, because Spark keeps every profile it was given for ever, and takes two
 * equal ones for different.
 *
 * '''Threads.''' `apply` and `reset` need the task scheduler's lock.
 */
private[dagopt] final class Concurrency(
    sc: SparkContext,
    scheduler: TaskSchedulerImpl,
    slotsPerCore: Int) extends Logging {

  private val defaultCpus = TaskCpus.ofDefaultTask(scheduler)
  private val profiles = new mutable.HashMap[Int, Int]

  // The profile of a task set is a constructor argument, kept in a final field that Spark reads anew
  // at each offer.
  private val field = {
    val f = classOf[TaskSet].getDeclaredField("resourceProfileId")
    f.setAccessible(true)
    f
  }

  /** Cores of an executor that Spark counts, to the cores that it has: one default task each. */
  def physicalCores(totalCores: Int): Double = totalCores / defaultCpus

  /** Why stages keep Spark's own concurrency, or "". */
  val whyNot: String =
    try {
      val custom = sc.resourceProfileManager.defaultResourceProfile.taskResources.keySet - ResourceProfile.CPUS
      if (slotsPerCore == 1) "spark.dagopt.slotsPerCore is 1"
      else if (scheduler.sc.conf.getBoolean("spark.dynamicAllocation.enabled", false)) "dynamic allocation is on"
      else if (custom.nonEmpty) s"tasks ask for ${custom.mkString(", ")}"
      else {
        val cannot = TaskCpus.cannotShare(defaultCpus)
        if (cannot.isEmpty) sc.resourceProfileManager.isSupported(profile(2))
        cannot
      }
    } catch { case NonFatal(e) => e.getMessage }

  def canRaise: Boolean = whyNot.isEmpty

  if (!canRaise && slotsPerCore > 1) {
    logInfo(s"dagopt does not raise the concurrency of stages: $whyNot")
  }

  /** At most `slotsPerCore` tasks a core, whatever was asked for. */
  def apply(manager: TaskSetManager, tasksPerCore: Int): Unit =
    if (canRaise) {
      val wanted = math.min(tasksPerCore, slotsPerCore)
      setProfile(manager, if (wanted == 1) ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID else profileId(wanted))
    }

  def reset(manager: TaskSetManager): Unit = setProfile(manager, ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID)

  private def setProfile(manager: TaskSetManager, id: Int): Unit =
    if (manager.taskSet.resourceProfileId != id) field.setInt(manager.taskSet, id)

  private def profileId(tasksPerCore: Int): Int = profiles.getOrElseUpdate(tasksPerCore, {
    val added = profile(tasksPerCore)
    sc.resourceProfileManager.addResourceProfile(added)
    added.id
  })

  private def profile(tasksPerCore: Int): TaskResourceProfile =
    new TaskResourceProfile(TaskCpus.requests(TaskCpus.share(defaultCpus, tasksPerCore)).requests)
}
