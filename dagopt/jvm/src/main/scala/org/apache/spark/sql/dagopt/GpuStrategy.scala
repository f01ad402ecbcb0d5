package org.apache.spark.sql.dagopt

import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/**
 * Plans an operator that has a resource profile of its own as [[GpuStageExec]]. Leaves alone what
 * has none, barrier operators and streaming queries; and everything while dagopt is off.
 *
 * Spark asks for the root of a plan first. There is noted what stands above each GPU operator,
 * which the operator itself cannot see.
 */
private[dagopt] final class GpuStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    try {
      plan match {
        case _ if !GpuStages.isOn => Nil
        case ReturnAnswer(root) => Above.note(root); Nil
        case operator if GpuOperators.is(operator) && !operator.isStreaming =>
          val child = operator.children.head
          val rows = RowsExec(child.output)
          GpuOperators.plan(operator, rows).map { gpu =>
            GpuStageExec(gpu, planLater(child), operator.getTagValue(Above.Tag).getOrElse(Above.Unknown))
          }.toSeq
        case _ => Nil
      }
    } catch { case t: Throwable => GpuStages.failed("planning a GPU stage", t); Nil }
}

/**
 * What stands above a GPU operator in its stage.
 *
 * @param operators the nearest first, up to the first one that ends the stage
 * @param limited whether a limit needs only some of its rows
 */
private[dagopt] final case class Above(operators: Seq[String], limited: Boolean)

private[dagopt] object Above {
  val Tag = TreeNodeTag[Above]("dagopt.above")
  val Unknown = Above(Nil, limited = false)

  def note(root: LogicalPlan): Unit = note(root, Unknown)

  private def note(plan: LogicalPlan, above: Above): Unit = {
    val here = plan match {
      case operator if GpuOperators.is(operator) =>
        operator.setTagValue(Tag, above)
        Above(Nil, above.limited)
      case _: GlobalLimit | _: LocalLimit | _: Tail | _: Offset => above.copy(limited = true)
      // Its first half runs in the stage of its child, on all rows.
      case _: Aggregate | _: Sort | _: Join | _: Window | _: Distinct | _: RepartitionOperation | _: Command =>
        Above(Seq(plan.nodeName), limited = false)
      // No more than renaming and dropping columns.
      case project: Project if project.projectList.forall(_.foldable) || project.projectList.forall(isPlain) => above
      case _ => above.copy(operators = plan.nodeName +: above.operators)
    }
    plan.children.foreach(note(_, here))
  }

  private def isPlain(expression: org.apache.spark.sql.catalyst.expressions.Expression): Boolean = expression match {
    case alias: org.apache.spark.sql.catalyst.expressions.Alias => isPlain(alias.child)
    case _: org.apache.spark.sql.catalyst.expressions.Attribute => true
    case _ => false
  }
}
