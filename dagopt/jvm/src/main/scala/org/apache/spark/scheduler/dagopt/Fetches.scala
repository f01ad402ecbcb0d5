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
      else set.manager.partitionToIndex.get(sample(2).toInt).flatMap(row(set, _, sample))
    }.toSeq
    rows.groupBy(_._1).foreach { case (set, of) =>
      set.tell(planner, Messages.fetch(executor, of.map(_._2)))
    }
  }

  /** None once the task's fetch was told to be done. */
  private def row(set: HeldSet, task: Int, sample: Array[Long]): Option[(HeldSet, FetchRow)] = {
    val (bytes, standsStill) = (sample(3), sample(4) == 1L)
    val done = set.fetchDone(task, bytes, standsStill) && set.firstDone(task)
    if (!done && (set.wasDone(task) || standsStill)) None
    else Some((set, FetchRow(set.key, task, bytes, done, stillMs = sample(5))))
  }
}
