package org.apache.spark.sql.dagopt

import org.apache.spark.scheduler.dagopt.BuildInfo
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/**
 * Puts [[GpuStrategy]] in front of Spark's own planner strategies, by
 * `spark.sql.extensions=org.apache.spark.sql.dagopt.DagoptExtensions`. A strategy is reached with and
 * without adaptive execution, and before Spark decides whether a plan is adaptive at all.
 *
 * Spark lets most of what an extension throws end the session. So a jar that was built for another
 * Spark, and whatever else goes wrong here, leaves the session as it is.
 */
final class DagoptExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    try {
      // The plugin has warned already.
      if (BuildInfo.refusal() == null) {
        extensions.injectPlannerStrategy { session =>
          try new GpuStrategy(() => session.sessionState.planner.strategies) catch { case t: Throwable => BuildInfo.warnOff(t.toString); new NoStrategy }
        }
        extensions.injectResolutionRule(_ => new BoundaryHint)
      }
    } catch { case t: Throwable => BuildInfo.warnOff(t.toString) }
}

/** Plans nothing. */
private[dagopt] final class NoStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = Nil
}
