package org.apache.spark.sql.dagopt

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.UnspecifiedDistribution
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy}

/**
 * Plans an operator that has a resource profile of its own, or functions that [[Marked]] knows, as
 * [[GpuStageExec]], together with those of the same profile right in front of it. Leaves alone what has
 * none, barrier operators and streaming queries; and everything while dagopt is off.
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
          if (Above.of(operator).setting.getOrElse(GpuStages.boundary) == "never") Nil else stage(operator).toSeq
        case _ => Nil
      }
    } catch { case t: Throwable => GpuStages.failed("planning a GPU stage", t); Nil }

  private def planMarked(operator: LogicalPlan): Seq[SparkPlan] = {
    def plain = Marked.without(operator)
    if (operator.isStreaming) Seq(planLater(plain))
    // Even where no planner answers: it is what the user asked for.
    else if (GpuStages.givesProfiles) underProfile(operator)
    else if (!GpuStages.isOn || PythonOperators.hasTwoInputs(operator)) Seq(planLater(plain))
    else planBySpark(plain).map(ToldExec(_, wouldBe(operator))).toSeq
  }

  private def underProfile(operator: LogicalPlan): Seq[SparkPlan] =
    if (PythonOperators.hasTwoInputs(operator)) {
      planBySpark(Marked.without(operator))
        .map(UnderProfileExec(_, Marked.profile(operator).get, Above.of(operator))).toSeq
    } else apart(operator) match {
      case Some(several) => Seq(ProjectExec(operator.output, planLater(several)))
      case None => stage(operator).toSeq
    }

  /** What would be planned, each operator for itself, over a [[RowsExec]]. */
  private def wouldBe(operator: LogicalPlan): SparkPlan = {
    val rows = operator.children.head
    def over(plan: LogicalPlan): SparkPlan =
      if (plan eq rows) RowsExec(rows.output)
      else {
        val front = over(plan.children.head)
        plan match {
          case project: Project => ProjectExec(project.projectList, front)
          case gpu if Marked.is(gpu) => GpuStageExec(node(gpu, RowsExec(front.output)).get, front, Above.of(gpu))
          case cpu => planBySpark(cpu).get.withNewChildren(Seq(front))
        }
      }
    apart(operator).fold(over(operator))(several => ProjectExec(operator.output, over(several)))
  }

  private def stage(operator: LogicalPlan): Option[SparkPlan] =
    chain(operator).map { case (gpu, rows) => GpuStageExec(gpu, planLater(rows), Above.of(operator)) }

  private def apart(operator: LogicalPlan): Option[LogicalPlan] = operator match {
    case eval: BaseEvalPython if Marked.is(eval) => UdfsApart(eval)
    case _ => None
  }

  private def planBySpark(operator: LogicalPlan): Option[SparkPlan] =
    all().filterNot(_.isInstanceOf[GpuStrategy]).iterator.flatMap(_(operator)).take(1).toSeq.headOption

  /** The operator and those of its profile in front of it, as Spark's own nodes; and what gives them rows. */
  private def chain(operator: LogicalPlan): Option[(SparkPlan, LogicalPlan)] = {
    val rows = operator.children.head
    node(operator, RowsExec(rows.output)).flatMap { alone =>
      val (columns, front) = inFront(rows)
      val isOne = takesAnyRows(alone) && profile(operator).exists(one => profile(front).exists(_.id == one.id)) &&
        Above.of(operator).setting == Above.of(front).setting
      (if (isOne) chain(front) else None) match {
        case Some((gpu, first)) => node(operator, columns.foldRight(gpu)(ProjectExec(_, _))).map((_, first))
        case None => Some((alone, rows))
      }
    }
  }

  /** What Spark itself makes of it. */
  private def node(operator: LogicalPlan, child: SparkPlan): Option[SparkPlan] =
    if (GpuOperators.is(operator)) GpuOperators.plan(operator, child) else Marked.node(operator, child, planBySpark)

  private def profile(operator: LogicalPlan): Option[ResourceProfile] =
    if (GpuOperators.is(operator)) GpuOperators.profile(operator)
    else if (PythonOperators.hasTwoInputs(operator)) None
    else Marked.profile(operator)

  /** The first operator that computes something, and the columns that are chosen behind it, the last choice first. */
  private def inFront(plan: LogicalPlan): (Seq[Seq[NamedExpression]], LogicalPlan) = plan match {
    case project: Project if Above.isPlain(project) =>
      val (columns, front) = inFront(project.child)
      (project.projectList +: columns, front)
    case other => apart(other).fold((Seq.empty[Seq[NamedExpression]], other))(several => (Seq(other.output), several))
  }

  /** Whether it needs no shuffle or sort in front. */
  private def takesAnyRows(node: SparkPlan): Boolean =
    node.requiredChildDistribution.forall(_ == UnspecifiedDistribution) && node.requiredChildOrdering.forall(_.isEmpty)
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
      case operator if PythonOperators.hasTwoInputs(operator) =>
        operator.setTagValue(Tag, above)
        above.copy(operators = Seq(plan.nodeName), limited = false)
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
