package org.apache.spark.sql.dagopt

import java.util.concurrent.TimeUnit

import scala.util.{Failure, Success}

import org.apache.spark.FutureAction
import org.apache.spark.rdd.RDD
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.{GpuForm, GpuStages, SliceState}
import org.apache.spark.sql.catalyst.InternalRow

/**
 * Slices of a GPU stage that start step by step, each part in a job of its own: the CPU part and then
 * the GPU part, or the CPU-only form instead. What starts when, the planner says whenever something
 * has changed. The rows of a slice are read from the one form that it is in at the end, so each of
 * them is in the result once.
 *
 * It ends when every slice has a form and none waits to be moved: what is left then runs in the job that reads
 * the rows. It may end at any moment, since a slice whose parts were not started runs there too.
 *
 * '''Threads.''' All on the one that plans the query, whose properties the jobs have.
 */
private[dagopt] final class SliceRun(
    form: GpuForm, profile: ResourceProfile, query: String, slices: Seq[SliceRun.Slice]) {
  import SliceRun._

  /** The rows of each slice. What a job throws, or an interrupt, ends all the others. */
  def rows(): Seq[RDD[InternalRow]] = {
    try {
      var told: Seq[SliceState] = Nil
      var toldNs = 0L
      var goesOn = true
      // A query that is lost elsewhere throws what it was lost by; nothing more is started for it.
      while (goesOn && !GpuStages.isLost(query) && slices.exists(_.isOpen)) {
        slices.foreach(_.look())
        val states = slices.map(_.state)
        // Time alone is no news.
        val stand = states.map(_.copy(runningMs = 0))
        if (stand != told || System.nanoTime() - toldNs > MaxSilenceNs) {
          told = stand
          toldNs = System.nanoTime()
          goesOn = step(states)
        }
        if (goesOn) Thread.sleep(StepMs)
      }
    } catch { case t: Throwable => slices.foreach(_.cancel()); throw t }
    slices.map(_.rows)
  }

  /** Whether there is more to ask for. */
  private def step(states: Seq[SliceState]): Boolean = GpuStages.steps(form.id, states, profile) match {
    case Some(next) =>
      next.takeBack.foreach(i => slices(i).takeBack())
      next.startGpu.foreach(i => slices(i).startGpu())
      next.startCpu.foreach(i => slices(i).startCpu())
      next.shift.foreach { case (i, slots) =>
        slices(i).shift(slots) { shuffle => GpuStages.measureCpuOnly(form, i, shuffle, slots) }
      }
      true
    case None =>
      // Nobody would take them back later.
      slices.foreach(_.takeBack())
      false
  }
}

private[dagopt] object SliceRun {
  private val StepMs = 20L
  private val MaxSilenceNs = TimeUnit.SECONDS.toNanos(1)

  /**
   * @param before the shuffle between its CPU and its GPU part
   * @param after the one that the GPU part writes
   * @param cpuOnly the one that its CPU-only form writes, made when it is first asked for
   */
  final class Slice(
      val size: Int, before: IdentityShuffle, after: IdentityShuffle, makeCpuOnly: () => Option[IdentityShuffle]) {
    private lazy val cpuOnly = makeCpuOnly()
    private var phase = "waiting"
    private var slots = 0
    private var startedNs = 0L
    private var job: Option[FutureAction[_]] = None

    /** Its CPU and GPU part run already, in a job of somebody else's. */
    def running(other: FutureAction[_]): this.type = {
      phase = "gpu_running"
      job = Some(other)
      this
    }

    /** Whether its form may still change. */
    def isOpen: Boolean = phase match {
      case "waiting" | "shifted" | "cpu_only_running" => true
      case _ => false
    }

    def state: SliceState = SliceState(size, phase, if (job.isEmpty) 0 else left, slots, runningMs)

    private def runningMs: Int =
      if (phase == "cpu_only_running") TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startedNs).toInt else 0

    private def left: Int = phase match {
      case "cpu_running" => math.max(1, size - before.numWritten)
      case "gpu_running" => math.max(1, size - after.numWritten)
      case "cpu_only_running" => math.max(1, size - cpuOnly.fold(0)(_.numWritten))
      case _ => 0
    }

    def rows: RDD[InternalRow] = (if (slots > 0) cpuOnly.getOrElse(after) else after).rows

    /** Sees what has happened since. Throws what its job threw. */
    def look(): Unit = {
      if (phase == "shifted" && cpuOnly.exists(shuffle => GpuStages.hasStarted(shuffle.id))) {
        phase = "cpu_only_running"
        startedNs = System.nanoTime()
      }
      job.flatMap(_.value) match {
        case Some(Failure(thrown)) => throw thrown
        case Some(Success(_)) =>
          phase = if (phase == "cpu_running") "cpu_done" else "done"
          job = None
        case None =>
      }
    }

    def startCpu(): Unit = if (phase == "waiting") start(before, "cpu_running")
    def startGpu(): Unit = if (phase == "cpu_done") start(after, "gpu_running")

    /** @param watch is told the shuffle before the job starts */
    def shift(most: Int)(watch: Int => Unit): Unit =
      if (phase == "waiting") cpuOnly.foreach { shuffle =>
        watch(shuffle.id)
        slots = most
        start(shuffle, "shifted")
      }

    def takeBack(): Unit = if (phase == "shifted" || phase == "cpu_only_running") {
      cancel()
      job = None
      slots = 0
      phase = "waiting"
    }

    def cancel(): Unit = job.foreach(_.cancel())

    private def start(shuffle: IdentityShuffle, next: String): Unit = {
      phase = next
      job = Some(shuffle.start())
    }
  }
}
