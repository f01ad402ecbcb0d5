package org.apache.spark.sql.dagopt

import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy}

/**
 * Plans an operator that has a resource profile of its own, or functions that [[Marked]] knows, as
 * [[GpuStageExec]], the former together with those of
 * the same profile right in front of it. Leaves alone what has none, barrier operators and streaming
 * queries; and everything while dagopt is off.
 *
 * Spark asks for the root of a plan first. There is noted what stands above each GPU operator,
 * which the operator itself cannot see.
 *
 * @param all the session's strategies, this one among them
 */
private[dagopt] final class GpuStrategy(all: () => Seq[SparkStrategy]) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    try {
      plan match {
        case operator if Marked.is(operator) => planMarked(operator)
        case _ if !GpuStages.isOn => Nil
        case ReturnAnswer(root) => Above.note(root); Nil
        case operator if GpuOperators.is(operator) && !operator.isStreaming =>
          val above = Above.of(operator)
          if (above.setting.getOrElse(GpuStages.boundary) == "never") Nil
          else chain(operator).map { case (gpu, child) => GpuStageExec(gpu, planLater(child), above) }.toSeq
        case _ => Nil
      }
    } catch { case t: Throwable => GpuStages.failed("planning a GPU stage", t); Nil }

  /** Under the profile even where no planner answers: it is what the user asked for. */
  private def planMarked(operator: LogicalPlan): Seq[SparkPlan] = {
    val apart = operator match {
      case eval: BaseEvalPython => UdfsApart(eval)
      case _ => None
    }
    if (!GpuStages.givesProfiles || operator.isStreaming) Seq(planLater(Marked.without(operator)))
    else if (apart.isDefined) Seq(ProjectExec(operator.output, planLater(apart.get)))
    else {
      val child = operator.children.head
      Marked.node(operator, RowsExec(child.output), planBySpark)
        .map(gpu => GpuStageExec(gpu, planLater(child), Above.of(operator))).toSeq
    }
  }

  private def planBySpark(operator: LogicalPlan): Option[SparkPlan] =
    all().filterNot(_.isInstanceOf[GpuStrategy]).iterator.flatMap(_(operator)).take(1).toSeq.headOption

  /** The operator and those of its profile in front of it, as Spark's own nodes; and what gives them rows. */
  private def chain(operator: LogicalPlan): Option[(SparkPlan, LogicalPlan)] = {
    val (columns, child) = operator.children.head match {
      case project: Project if Above.isPlain(project) => (Some(project.projectList), project.child)
      case other => (None, other)
    }
    val isOne = GpuOperators.is(child) && GpuOperators.sameProfile(operator, child) &&
      Above.of(operator).setting == Above.of(child).setting
    (if (isOne) chain(child) else None) match {
      case Some((gpu, rows)) =>
        GpuOperators.plan(operator, columns.fold(gpu)(ProjectExec(_, gpu))).map((_, rows))
      case None =>
        val rows = operator.children.head
        GpuOperators.plan(operator, RowsExec(rows.output)).map((_, rows))
    }
  }
}

/**
 * What stands above a GPU operator in its stage.
 *
 * @param operators the nearest first, up to the first one that ends the stage
 * @param limited whether a limit needs only some of its rows
 * @param setting of `spark.dagopt.boundary` that a hint gives
 */
private[dagopt] final case class Above(operators: Seq[String], limited: Boolean, setting: Option[String]) {
  /** Whether rows of others are in the same stage. */
  def sharesStage: Boolean = operators.contains("Union")
}

private[dagopt] object Above {
  val Tag = TreeNodeTag[Above]("dagopt.above")
  val Unknown = Above(Nil, limited = false, None)

  def of(operator: LogicalPlan): Above = operator.getTagValue(Tag).getOrElse(Unknown)

  def note(root: LogicalPlan): Unit = note(root, Unknown)

  private def note(plan: LogicalPlan, inherited: Above): Unit = {
    val above = inherited.copy(setting = BoundaryHint.of(plan).orElse(inherited.setting))
    val here = plan match {
      case operator if GpuOperators.is(operator) || Marked.is(operator) =>
        operator.setTagValue(Tag, above)
        above.copy(operators = Nil)
      case _: GlobalLimit | _: LocalLimit | _: Tail | _: Offset => above.copy(limited = true)
      // Its first half runs in the stage of its child, on all rows.
      case _: Aggregate | _: Sort | _: Join | _: Window | _: Distinct | _: RepartitionOperation | _: Command =>
        above.copy(operators = Seq(plan.nodeName), limited = false)
      case project: Project if isPlain(project) => above
      case _ => above.copy(operators = plan.nodeName +: above.operators)
    }
    plan.children.foreach(note(_, here))
  }

  /** No more than renaming and dropping columns. */
  def isPlain(project: Project): Boolean =
    project.projectList.forall(_.foldable) || project.projectList.forall(isPlain)

  private def isPlain(expression: Expression): Boolean = expression match {
    case alias: Alias => isPlain(alias.child)
    case _: Attribute => true
    case _ => false
  }
}
