package org.apache.spark.sql.dagopt

import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Spark's own node, which runs as if this one were not there. The planner is told of the GPU stages that
 * would be in its place if dagopt acted.
 *
 * @param template what would be there, over a [[RowsExec]]
 */
private[dagopt] case class ToldExec(child: SparkPlan, template: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def stringArgs: Iterator[Any] = Iterator.empty
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): ToldExec = copy(child = newChild)

  private def rows: SparkPlan = PlanText.operator(child)._2.head

  /** The template over what gives Spark's node its rows. */
  def wouldBe: SparkPlan = over(rows)

  private def over(rows: SparkPlan): SparkPlan = session.withActive(template.transformUp { case _: RowsExec => rows })

  override protected def doExecute(): RDD[InternalRow] = {
    val made = child.execute()
    try if (GpuStages.isOn) {
      val front = rows
      stages(over(front), front).foreach { stage =>
        GpuStages.formOf(stage.question(made.getNumPartitions, GpuExplain.hasOther(stage)))
      }
    } catch { case t: Throwable => GpuStages.failed("telling of a GPU stage", t) }
    made
  }

  private def stages(node: SparkPlan, front: SparkPlan): Seq[GpuStageExec] =
    if (node eq front) Nil
    else node.children.flatMap(stages(_, front)) ++ Seq(node).collect { case stage: GpuStageExec => stage }
}
