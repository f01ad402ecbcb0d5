package org.apache.spark.scheduler.dagopt

/**
 * The driver's end of the executors' probes: turns their samples into `fetch` messages. A probe
 * knows how much its tasks have read and whether that stands still; only the driver knows how much
 * they will read.
 *
 * '''Threads.''' The plugin's RPC endpoint, one message at a time.
 */
private[dagopt] final class Fetches(gate: Gate, planner: PlannerProcess) {

  def receive(executor: String, samples: Array[Long]): Unit = {
    val rows = samples.grouped(Probe.Columns).flatMap { sample =>
      val set = gate.find(SetKey(sample(0).toInt, sample(1).toInt))
      if (set == null) None
      else set.manager.partitionToIndex.get(sample(2).toInt).flatMap(row(set, _, sample(3), sample(4) == 1L))
    }.toSeq
    rows.groupBy(_._1).foreach { case (set, of) =>
      set.tell(planner, Messages.fetch(executor, of.map { case (_, task, bytes, done) => (set.key, task, bytes, done) }))
    }
  }

  /** None once the task's fetch was told to be done. */
  private def row(set: HeldSet, task: Int, bytes: Long, standsStill: Boolean): Option[(HeldSet, Int, Long, Boolean)] = {
    val done = set.fetchDone(task, bytes, standsStill)
    if (done && set.firstDone(task)) Some((set, task, bytes, true))
    else if (set.wasDone(task) || standsStill) None
    else Some((set, task, bytes, false))
  }
}
