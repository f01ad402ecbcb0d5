package org.apache.spark.sql.dagopt

import org.apache.spark.sql.catalyst.plans.logical.{FlatMapCoGroupsInPandas, FlatMapGroupsInPandas, LogicalPlan, MapInPandas, PythonMapInArrow}

/** The operators out of whose plain Python function Spark makes a UDF itself. */
private[dagopt] object PythonOperators {
  /** A barrier stage must start whole, so it is left alone. */
  def is(plan: LogicalPlan): Boolean = plan match {
    case MapInPandas(_, _, _, isBarrier) => !isBarrier
    case PythonMapInArrow(_, _, _, isBarrier) => !isBarrier
    case _: FlatMapGroupsInPandas => true
    case other => hasTwoInputs(other)
  }

  def hasTwoInputs(plan: LogicalPlan): Boolean = plan.isInstanceOf[FlatMapCoGroupsInPandas]
}
