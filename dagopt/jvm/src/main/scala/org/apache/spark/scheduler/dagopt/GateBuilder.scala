package org.apache.spark.scheduler.dagopt

import java.util.Properties

import org.apache.spark.scheduler.{Pool, Schedulable, SchedulableBuilder}

/** Shows every task set to the gate, after Spark's own builder has put it into its pool. */
private[dagopt] final class GateBuilder(original: SchedulableBuilder, gate: Gate) extends SchedulableBuilder {
  override def rootPool: Pool = original.rootPool
  override def buildPools(): Unit = original.buildPools()
  override def addTaskSetManager(manager: Schedulable, properties: Properties): Unit = {
    original.addTaskSetManager(manager, properties)
    gate.submitted(manager)
  }
}
