package org.apache.spark.sql.dagopt

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MapInArrow, MapInPandas}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.{MapInArrowExec, MapInPandasExec}

/** The operators that take a resource profile, which SQL has from Spark 4.0 on. */
private[dagopt] object GpuOperators {

  /** With a profile, and not barrier: a barrier stage must start whole, so it is left alone. */
  def is(plan: LogicalPlan): Boolean = plan match {
    case MapInPandas(_, _, _, isBarrier, profile) => profile.isDefined && !isBarrier
    case MapInArrow(_, _, _, isBarrier, profile) => profile.isDefined && !isBarrier
    case _ => false
  }

  /** What Spark itself makes of it. */
  def plan(operator: LogicalPlan, child: SparkPlan): Option[SparkPlan] = operator match {
    case MapInPandas(function, output, _, isBarrier, profile) =>
      Some(MapInPandasExec(function, output, child, isBarrier, profile))
    case MapInArrow(function, output, _, isBarrier, profile) =>
      Some(MapInArrowExec(function, output, child, isBarrier, profile))
    case _ => None
  }

  def profile(operator: LogicalPlan): Option[ResourceProfile] = operator match {
    case MapInPandas(_, _, _, _, profile) => profile
    case MapInArrow(_, _, _, _, profile) => profile
    case _ => None
  }

  def profile(node: SparkPlan): Option[ResourceProfile] = node match {
    case pandas: MapInPandasExec => pandas.profile
    case arrow: MapInArrowExec => arrow.profile
    case _ => None
  }
}
