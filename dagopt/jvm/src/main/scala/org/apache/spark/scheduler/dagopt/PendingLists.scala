package org.apache.spark.scheduler.dagopt

import scala.collection.mutable.{ArrayBuffer, HashMap}

import org.apache.spark.scheduler.{PendingTasksByLocality, TaskSetManager}

/**
 * The pending lists of a task set, taken out of its manager: a task that is in none of the
 * manager's lists is never offered, and that is all there is to holding it.
 *
 * Spark takes tasks from the end of a list, and skips one that runs or has succeeded. So an index
 * that stands in a list twice does no harm, and entries that Spark adds while tasks are held (a
 * failed task to retry, tasks lost with an executor) are kept where Spark wants them: last, that
 * is, first to go.
 *
 * '''Threads.''' Every method needs the task scheduler's lock.
 */
private[dagopt] final class PendingLists private (
    forExecutor: Array[(String, ArrayBuffer[Int])],
    forHost: Array[(String, ArrayBuffer[Int])],
    forRack: Array[(String, ArrayBuffer[Int])],
    noPrefs: ArrayBuffer[Int],
    all: ArrayBuffer[Int]) {

  /** Puts back, below what was added meanwhile, the tasks that `keep` holds true for.
   * With `rank`, they are offered in the order of `rank(task)`; without, in Spark's own. */
  def putBack(pending: PendingTasksByLocality, keep: Int => Boolean, rank: Array[Int]): Unit = {
    def below(into: ArrayBuffer[Int], old: ArrayBuffer[Int]): Unit = {
      val added = into.toArray
      into.clear()
      val kept = old.toArray.filter(keep)
      into ++= (if (rank == null) kept else kept.sortBy(task => -rank(task)))
      into ++= added
    }
    def belowAll(into: HashMap[String, ArrayBuffer[Int]], old: Array[(String, ArrayBuffer[Int])]): Unit =
      old.foreach { case (key, tasks) => below(into.getOrElseUpdate(key, new ArrayBuffer[Int]), tasks) }
    belowAll(pending.forExecutor, forExecutor)
    belowAll(pending.forHost, forHost)
    belowAll(pending.forRack, forRack)
    below(pending.noPrefs, noPrefs)
    below(pending.all, all)
  }

  /** Puts everything back above what is pending now, so that it is offered before it. */
  def putBackFirst(pending: PendingTasksByLocality): Unit = {
    def above(into: HashMap[String, ArrayBuffer[Int]], old: Array[(String, ArrayBuffer[Int])]): Unit =
      old.foreach { case (key, tasks) => into.getOrElseUpdate(key, new ArrayBuffer[Int]) ++= tasks }
    above(pending.forExecutor, forExecutor)
    above(pending.forHost, forHost)
    above(pending.forRack, forRack)
    pending.noPrefs ++= noPrefs
    pending.all ++= all
  }
}

private[dagopt] object PendingLists {

  /** Empties `pending`. The lists by place are moved, not copied: 10,000 tasks cost microseconds. */
  def take(pending: PendingTasksByLocality): PendingLists = {
    def copy(from: ArrayBuffer[Int]): ArrayBuffer[Int] = new ArrayBuffer[Int](from.size) ++= from
    val taken = new PendingLists(
      pending.forExecutor.toArray, pending.forHost.toArray, pending.forRack.toArray,
      copy(pending.noPrefs), copy(pending.all))
    pending.forExecutor.clear()
    pending.forHost.clear()
    pending.forRack.clear()
    pending.noPrefs.clear()
    pending.all.clear()
    taken
  }

  /** Makes `tasks` pending as Spark would have done it, after those that are pending already. */
  def add(manager: TaskSetManager, tasks: Array[Int]): Unit = {
    val pending = manager.pendingTasks
    val earlier = if (pending.all.isEmpty && pending.forExecutor.isEmpty) null else take(pending)
    var i = tasks.length - 1
    while (i >= 0) { manager.addPendingTask(tasks(i)); i -= 1 }
    if (earlier != null) earlier.putBackFirst(pending)
  }

  /** While nothing was pending Spark let the locality level run down to ANY: it starts again at the best one. */
  def resetLocality(manager: TaskSetManager): Unit = {
    manager.recomputeLocality()
    manager.resetDelayScheduleTimer(manager.myLocalityLevels.headOption)
  }

  /**
   * Makes `tasks` pending for one executor alone: they stand in no other list of pending tasks.
   *
   * Spark makes offers only to a task set whose list of all tasks, or of all speculatable tasks, is
   * not empty. So pinned tasks stand in the latter too, which Spark does not look into while it has
   * no task to speculate on. With speculation on, `canPin` is false.
   */
  def pin(manager: TaskSetManager, tasks: Array[Int], executor: String): Unit = {
    val list = manager.pendingTasks.forExecutor.getOrElseUpdate(executor, new ArrayBuffer[Int])
    tasks.foreach(task => list.insert(0, task))
    manager.pendingSpeculatableTasks.all ++= tasks
  }

  def canPin(manager: TaskSetManager): Boolean = !manager.speculationEnabled

  /** Undoes `pin`, whether the task was started or not. */
  def unpin(manager: TaskSetManager, task: Int, executor: String): Unit = {
    manager.pendingTasks.forExecutor.get(executor).foreach(_ -= task)
    manager.pendingSpeculatableTasks.all -= task
  }

  /** Whether Spark could still start the task: it does not run, and no attempt has succeeded. */
  def startable(manager: TaskSetManager, task: Int): Boolean =
    manager.copiesRunning(task) == 0 && !manager.successful(task)
}
