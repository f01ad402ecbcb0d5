package org.apache.spark.sql.dagopt

import org.apache.spark.sql.execution.{ColumnarToRowExec, InputAdapter, RowToColumnarExec, SparkPlan, WholeStageCodegenExec}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, AQEShuffleReadExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}

/**
 * Physical plans as their operators alone: without what generates code, changes layouts, or is put
 * around a part of a plan when adaptive execution has run it.
 */
private[dagopt] object PlanText {
  /** What tells a plan from others, the same before it runs, while it runs, and in the next run. */
  def of(plan: SparkPlan): String = {
    val (node, inputs) = operator(plan)
    node.simpleString(node.conf.maxToStringFields) + inputs.map(of).mkString("(", ",", ")")
  }

  /** The operators that run in one stage with `plan`, itself included, those that run first in front. */
  def stage(plan: SparkPlan): Seq[SparkPlan] = {
    val (node, inputs) = operator(plan)
    if (endsStage(node)) Nil else inputs.flatMap(stage) :+ node
  }

  /** Whether what stands above it runs in another stage; a GPU stage is one of its own. */
  def endsStage(node: SparkPlan): Boolean = node.isInstanceOf[Exchange] || node.isInstanceOf[GpuStageExec]

  /** The first operator at or below `plan`, and what gives it rows. */
  def operator(plan: SparkPlan): (SparkPlan, Seq[SparkPlan]) = plan match {
    case adaptive: AdaptiveSparkPlanExec => operator(adaptive.initialPlan)
    case stage: QueryStageExec => operator(stage.plan)
    case reused: ReusedExchangeExec => operator(reused.child)
    case told: ToldExec => operator(told.wouldBe)
    case _: WholeStageCodegenExec | _: InputAdapter | _: ColumnarToRowExec | _: RowToColumnarExec | _: AQEShuffleReadExec =>
      operator(plan.children.head)
    case node => (node, node.children)
  }
}
