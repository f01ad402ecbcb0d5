package org.apache.spark.scheduler.dagopt

import org.apache.spark.scheduler.{ShuffleMapStage, TaskSchedulerImpl, TaskSetManager}

/**
 * Keeps CPU slots free for the GPU tasks of a sliced stage. A GPU task needs a CPU slot too, and when
 * its slice is ready, tasks of the next one have just taken them all. So of the CPU stages behind
 * the first one, tasks are pending only while fewer than the planner's number are active. Which slice
 * comes first is Spark's choice: it numbers the stages of a union as they come out of a hash set.
 *
 * A task set here always has an active task or none that waits, so nothing can be held for ever as
 * long as `refill` is called: at the end of every task and, since the listener bus may lose events,
 * by the [[Watchdog]].
 *
 * '''Threads.''' Everything under the task scheduler's lock, which each method takes where it has to.
 */
private[dagopt] final class CpuLimit(scheduler: TaskSchedulerImpl) {
  import CpuLimit._

  private val byShuffle = new Bounded[Int, Watched](Most)
  private val byForm = new Bounded[Long, Stages](Most)
  /** Whether a task set is followed. Read without the lock: most applications never have one. */
  @volatile private var follows = false

  /**
   * The stage that writes `shuffle` is the CPU stage of a slice.
   *
   * @param maxTasks of all of the form that may be active
   * @param most of this one that may be
   */
  def watch(form: Long, shuffle: Int, maxTasks: Int, most: Int = Int.MaxValue): Unit = scheduler.synchronized {
    byShuffle.put(shuffle, Watched(shuffle, byForm.computeIfAbsent(form, _ => new Stages(maxTasks)), most))
  }

  /** Whether a task of the stage that writes `shuffle` is running, or has ended. */
  def hasStarted(shuffle: Int): Boolean = scheduler.synchronized {
    val watched = byShuffle.get(shuffle)
    watched == null || watched.stages.sets.exists { set =>
      set.shuffle == shuffle && !set.manager.isZombie && (set.manager.runningTasks > 0 || set.manager.tasksSuccessful > 0)
    }
  }

  /** Whether it takes care of this task set. Spark's scheduling thread. */
  def took(manager: TaskSetManager): Boolean = scheduler.synchronized {
    val watched = if (byShuffle.isEmpty || manager.taskSet.stageAttemptId > 0) null else watchedOf(manager)
    if (watched == null) false
    else {
      val stages = watched.stages
      val isFirst = !stages.began && watched.most >= manager.numTasks
      if (!isFirst) PendingLists.take(manager.pendingTasks)
      val waiting = if (isFirst) Array.empty[Int] else Array.range(0, manager.numTasks)
      stages.sets :+= new Limited(manager, watched.shuffle, watched.most, waiting)
      stages.began = true
      follows = true
      stages.refill()
      !isFirst
    }
  }

  private def watchedOf(manager: TaskSetManager): Watched =
    scheduler.dagScheduler.stageIdToStage.get(manager.stageId) match {
      case Some(stage: ShuffleMapStage) => byShuffle.get(stage.shuffleDep.shuffleId)
      case _ => null
    }

  /** Lets as many tasks go as there is room for. */
  def refill(): Unit = if (follows) revive(scheduler.synchronized {
    var any, left = false
    byForm.values.forEach { stages =>
      any |= stages.refill()
      left |= stages.sets.nonEmpty
    }
    follows = left
    any
  })

  /** Dagopt is off: all tasks are Spark's. */
  def releaseAll(): Unit = revive(scheduler.synchronized {
    byForm.values.forEach(_.limitNothing())
    byShuffle.clear()
    true
  })

  private def revive(any: Boolean): Unit = if (any) scheduler.backend.reviveOffers()
}

private[dagopt] object CpuLimit {
  private val Most = 1000

  /** A shuffle whose stage is the CPU stage of a slice, of which so many tasks may be active. */
  private final case class Watched(shuffle: Int, stages: Stages, most: Int)

  /** A task set, and its tasks that are not pending yet. */
  private final class Limited(
      val manager: TaskSetManager, val shuffle: Int, var most: Int, var waiting: Array[Int]) {
    def active: Int = manager.numTasks - manager.tasksSuccessful - waiting.length
  }

  /** The CPU stages of one form, in the order in which Spark submitted them. */
  private final class Stages(var maxTasks: Int) {
    var sets: Vector[Limited] = Vector.empty
    /** Its first CPU stage was submitted, of which any number of tasks may run. */
    var began = false

    def limitNothing(): Unit = {
      maxTasks = Int.MaxValue
      sets.foreach(_.most = Int.MaxValue)
    }

    def refill(): Boolean = {
      sets = sets.filterNot(_.manager.isZombie)
      var room = maxTasks - sets.map(_.active).sum
      var any = false
      sets.foreach { set =>
        val next = set.waiting.take(math.min(room, set.most - set.active))
        if (next.nonEmpty) {
          set.waiting = set.waiting.drop(next.length)
          PendingLists.add(set.manager, next)
          PendingLists.resetLocality(set.manager)
          room -= next.length
          any = true
        }
      }
      any
    }
  }
}
