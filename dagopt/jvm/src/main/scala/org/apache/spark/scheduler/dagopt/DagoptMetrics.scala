package org.apache.spark.scheduler.dagopt

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.metrics.source.Source

/**
 * What dagopt counts, as the source `dagopt` of Spark's metrics system, so that every sink has it.
 * (The registry that Spark gives a plugin would name the plugin's whole class in each metric.)
 * Gauges read what was counted or told already, and ask nobody. Any thread.
 */
private[dagopt] final class DagoptMetrics(counters: Counters, switch: Switch) extends Source {
  override val sourceName: String = "dagopt"
  override val metricRegistry: MetricRegistry = new MetricRegistry()

  gauge("off")(if (switch.isOff) 1L else 0L)
  gauge("taskSetsSeen")(counters.taskSetsSeen.get)
  gauge("taskSetsHeld")(counters.taskSetsHeld.get)
  gauge("tasksHeld")(counters.tasksHeld.get)
  gauge("tasksHeldNow")(counters.tasksHeldNow.get)
  gauge("groupsLaunched")(counters.groupsLaunched.get)
  gauge("fallbacks")(counters.fallbacks.get)
  gauge("messagesDropped")(counters.messagesDropped.get)
  gauge("decisions")(counters.told.decisions)
  gauge("gpuDecisions")(counters.told.gpuDecisions)
  gauge("gpuShifts")(counters.told.gpuShifts)
  gauge("idleHoldSeconds")(counters.told.idleHoldS)
  gauge("gpuAllocatedSeconds")(counters.told.gpuAllocatedS)
  gauge("gpuBusySeconds")(counters.told.gpuBusyS)
  gauge("gpuIdleSeconds")(counters.told.gpuIdleS)

  private def gauge[A](name: String)(value: => A): Unit =
    metricRegistry.register(name, new Gauge[A] { override def getValue: A = value })
}

private[dagopt] object DagoptMetrics extends Logging {
  /** Metrics that cannot be had cost themselves and nothing else. */
  def register(sc: SparkContext, counters: Counters, switch: Switch): Unit =
    try sc.env.metricsSystem.registerSource(new DagoptMetrics(counters, switch))
    catch { case t: Throwable => logInfo(s"dagopt has no metrics: $t") }
}
