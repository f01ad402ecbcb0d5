package org.apache.spark.scheduler.dagopt

import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}

/**
 * Connects dagopt's planner, a process of its own, to Spark's task scheduler. Decides nothing:
 * every policy lives in Python, where it is tested without Spark.
 *
 * '''Loaded by''' `spark.plugins=org.apache.spark.scheduler.dagopt.DagoptPlugin`, on the driver
 * ([[DagoptDriver]]) and on the executors ([[Probe]]). The package is one of Spark's so that
 * `private[spark]` and `private[scheduler]` members can be used; hence one jar per Spark minor.
 *
 * '''Never harms the application.''' Spark does not catch what a plugin's `init` throws, and a
 * LinkageError out of a listener stops the SparkContext too (`NonFatal` lets it pass). So
 * everything that Spark calls catches Throwable, warns once, and dagopt is off.
 */
final class DagoptPlugin extends SparkPlugin {

  override def driverPlugin(): DriverPlugin =
    try {
      val refusal = BuildInfo.refusal()
      if (refusal == null) new DagoptDriver
      else { BuildInfo.warnOff(refusal); null }
    } catch { case t: Throwable => BuildInfo.warnOff(t.toString); null }

  // The driver has warned already: an executor of a Spark that does not fit stays silent.
  override def executorPlugin(): ExecutorPlugin =
    try if (BuildInfo.refusal() == null) new Probe else null
    catch { case _: Throwable => null }
}
