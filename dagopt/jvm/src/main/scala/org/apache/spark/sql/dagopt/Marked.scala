package org.apache.spark.sql.dagopt

import org.apache.spark.rdd.RDD
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.{BaseEvalPython, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.SparkPlan

/** Operators that evaluate Python functions which `dagopt.gpu_udf` has marked. */
private[dagopt] object Marked {
  private val Tag = TreeNodeTag[GpuMark]("dagopt.mark")

  def is(plan: LogicalPlan): Boolean = marks(plan).exists(_.isDefined)

  private def marks(plan: LogicalPlan): Seq[Option[GpuMark]] = plan match {
    case _: BaseEvalPython => functions(plan).map(GpuMark.of)
    case operator if PythonOperators.is(operator) => functions(plan).map(GpuMark.of)
    case _ => Nil
  }

  /** Of all its functions; None where they have several, or some have none. */
  def profile(plan: LogicalPlan): Option[ResourceProfile] = {
    val found = marks(plan).map(_.map(_.profile))
    found.headOption.flatten.filter(one => found.forall(_.exists(_.id == one.id)))
  }

  private def functions(plan: LogicalPlan): Seq[PythonUDF] =
    plan.expressions.flatMap(_.collect { case udf: PythonUDF => udf })

  /** As the user wrote it. */
  def without(plan: LogicalPlan): LogicalPlan =
    plan.transformExpressions { case udf: PythonUDF => GpuMark.without(udf) }

  /**
   * Spark's node for an operator whose functions are marked with one profile.
   *
   * @param plan Spark's own planning
   */
  def node(operator: LogicalPlan, child: SparkPlan, plan: LogicalPlan => Option[SparkPlan]): Option[SparkPlan] = {
    val asked = marks(operator).flatten
    plan(without(operator)).map { node =>
      val made = node.withNewChildren(Seq(child))
      made.setTagValue(Tag, asked.head.copy(hasCpuForm = asked.forall(_.hasCpuForm)))
      made
    }
  }

  def of(node: SparkPlan): Option[GpuMark] = node.getTagValue(Tag)

  /** The rows of such a node under its profile. Others have seen to that themselves. */
  def run(node: SparkPlan): RDD[InternalRow] = {
    val rows = node.execute()
    of(node).foreach(mark => rows.withResources(mark.profile))
    rows
  }
}
