package org.apache.spark.scheduler.dagopt

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.scheduler._

/** The executors of the application and the cores that they have. Any thread. */
private[dagopt] final class ExecutorTable {
  private val alive = new ConcurrentHashMap[String, java.lang.Double]()
  /** Host, and the number of addresses of each resource such as `gpu`. */
  private val places = new ConcurrentHashMap[String, (String, Map[String, Int])]()
  private val ever = ConcurrentHashMap.newKeySet[String]()
  @volatile private var total = 0.0

  def add(executor: String, cores: Double, host: String, resources: Map[String, Int]): Unit = synchronized {
    alive.put(executor, cores)
    places.put(executor, (host, resources))
    ever.add(executor)
    sum()
  }
  def remove(executor: String): Unit = synchronized { alive.remove(executor); places.remove(executor); sum() }

  def isAlive(executor: String): Boolean = alive.containsKey(executor)
  def wasEver(executor: String): Boolean = ever.contains(executor)
  def cores: Double = total
  def numHosts: Int = places.values.asScala.map(_._1).toSet.size

  /** How many tasks that ask for so much of a resource can have it at once. */
  def slots(resource: String, amount: Double): Int = places.values.asScala.map { case (_, resources) =>
    val addresses = resources.getOrElse(resource, 0)
    // Tasks share an address, or have whole ones.
    if (amount <= 0) 0 else if (amount < 1) addresses * math.floor(1 / amount).toInt else math.floor(addresses / amount).toInt
  }.sum

  private def sum(): Unit = {
    var cores = 0.0
    alive.values.forEach(c => cores += c)
    total = cores
  }
}

/**
 * Tells the planner what Spark's listener bus tells: executors, and tasks of the sets that the
 * planner knows. Of other stages it says nothing, so an application of tiny stages costs nothing.
 *
 * '''Life.''' Registered in `init`, before the first executor can be there; what comes before the
 * gate is there waits for it.
 *
 * '''Threads.''' A queue of its own on the bus, so that a slow listener of somebody else delays
 * nothing here, and nothing here delays others. Constant work an event. Every method catches
 * Throwable: Spark stops the application for a LinkageError out of a listener.
 */
private[dagopt] final class Tap(
    switch: Switch, executors: ExecutorTable, planner: PlannerProcess, plans: SqlPlans, gpuStages: GpuStages)
    extends SparkListener {

  @volatile private var gate: Gate = _
  private var early: List[SparkListenerExecutorAdded] = Nil

  /** From now on events count. */
  def open(to: Gate): Unit = synchronized {
    gate = to
    early.reverse.foreach(tellAdded)
    early = Nil
  }

  private def guard(body: => Unit): Unit =
    if (!switch.isOff) switch.guard("listening to Spark's events")(body)

  override def onExecutorAdded(event: SparkListenerExecutorAdded): Unit = guard {
    synchronized { if (gate == null) early ::= event else tellAdded(event) }
  }

  private def tellAdded(event: SparkListenerExecutorAdded): Unit = {
    val cores = gate.concurrency.physicalCores(event.executorInfo.totalCores)
    // With a local master Spark calls the host "localhost" here, and otherwise wherever its blocks lie.
    val host =
      if (event.executorId == SparkContext.DRIVER_IDENTIFIER) SparkEnv.get.blockManager.blockManagerId.host
      else event.executorInfo.executorHost
    val resources = event.executorInfo.resourcesInfo.map { case (name, found) => name -> found.addresses.length }
    executors.add(event.executorId, cores, host, resources.toMap)
    planner.send(Messages.executorAdded(event.time, event.executorId, host, cores))
  }

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = guard {
    synchronized { early = early.filter(_.executorId != event.executorId) }
    executors.remove(event.executorId)
    if (gate != null) {
      planner.send(Messages.executorRemoved(event.time, event.executorId))
      gate.executorRemoved(event.executorId)
    }
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = guard(plans.heard(event))

  private def known(stage: Int, attempt: Int): HeldSet =
    if (gate == null) null else gate.find(SetKey(stage, attempt))

  override def onTaskStart(event: SparkListenerTaskStart): Unit = guard {
    val set = known(event.stageId, event.stageAttemptId)
    if (set != null) {
      set.notDone(event.taskInfo.index)
      set.tell(planner, Messages.taskStarted(set.key, event.taskInfo))
    }
  }

  override def onJobStart(event: SparkListenerJobStart): Unit = guard(gpuStages.lost.started(event.jobId, event.properties))

  override def onJobEnd(event: SparkListenerJobEnd): Unit =
    guard(gpuStages.lost.ended(event.jobId, event.jobResult == JobSucceeded))

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit = guard(gpuStages.meter.submitted(event.stageInfo))

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = guard {
    gpuStages.meter.taskEnded(event.stageId, event.taskInfo, event.taskMetrics)
    val set = known(event.stageId, event.stageAttemptId)
    if (set != null) set.tell(planner, Messages.taskEnded(set.key, event.taskInfo, event.taskMetrics))
    if (gate != null) gate.cpuLimit.refill()
  }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = guard {
    val stage = event.stageInfo
    gpuStages.meter.completed(stage)
    if (gate != null) gate.setEnded(SetKey(stage.stageId, stage.attemptNumber()), stage.failureReason.isEmpty)
  }
}
