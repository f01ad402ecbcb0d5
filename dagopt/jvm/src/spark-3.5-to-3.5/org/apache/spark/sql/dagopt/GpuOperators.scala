package org.apache.spark.sql.dagopt

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan

/** No operator of SQL takes a resource profile before Spark 4.0. */
private[dagopt] object GpuOperators {
  def is(plan: LogicalPlan): Boolean = false
  def plan(operator: LogicalPlan, child: SparkPlan): Option[SparkPlan] = None
  def profile(operator: LogicalPlan): Option[ResourceProfile] = None
  def profile(node: SparkPlan): Option[ResourceProfile] = None
}
