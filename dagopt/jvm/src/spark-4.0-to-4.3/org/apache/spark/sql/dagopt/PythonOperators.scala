package org.apache.spark.sql.dagopt

import org.apache.spark.sql.catalyst.plans.logical.{FlatMapCoGroupsInArrow, FlatMapCoGroupsInPandas, FlatMapGroupsInArrow, FlatMapGroupsInPandas, LogicalPlan, MapInArrow, MapInPandas}

/** The operators out of whose plain Python function Spark makes a UDF itself. */
private[dagopt] object PythonOperators {
  /** A barrier stage must start whole, so it is left alone; Spark's own argument goes first. */
  def is(plan: LogicalPlan): Boolean = plan match {
    case MapInPandas(_, _, _, isBarrier, profile) => !isBarrier && profile.isEmpty
    case MapInArrow(_, _, _, isBarrier, profile) => !isBarrier && profile.isEmpty
    case _: FlatMapGroupsInPandas | _: FlatMapGroupsInArrow => true
    case other => hasTwoInputs(other)
  }

  def hasTwoInputs(plan: LogicalPlan): Boolean = plan match {
    case _: FlatMapCoGroupsInPandas | _: FlatMapCoGroupsInArrow => true
    case _ => false
  }
}
