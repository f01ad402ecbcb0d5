package org.apache.spark.sql.dagopt

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Expression, PlanExpression, PythonUDF}
import org.apache.spark.sql.catalyst.plans.logical.{ArrowEvalPython, BaseEvalPython, BatchEvalPython, LogicalPlan, Project}

/**
 * Spark evaluates all Python UDFs of a projection in one operator, and one that is called on another's
 * result in the same Python process. Where they are to run under different profiles, they are taken
 * apart here into operators of one profile each. So are arguments with a subquery: Spark runs those of
 * the operators that it sees in a plan, and it does not see into a GPU stage.
 */
private[dagopt] object UdfsApart {
  private type Udfs = Seq[(PythonUDF, Attribute)]

  /** Operators that evaluate the same between them; None where all is of one profile already. */
  def apply(eval: BaseEvalPython): Option[LogicalPlan] = {
    val inner = mutable.LinkedHashMap[Expression, (PythonUDF, Attribute)]()
    val arguments = mutable.Buffer[Alias]()
    val outer = eval.udfs.map(cut(_, inner, arguments))
    val groups = grouped(outer.zip(eval.resultAttrs))
    if (inner.isEmpty && arguments.isEmpty && groups.size < 2) None
    else {
      val rows = if (arguments.isEmpty) eval.child else Project(eval.child.output ++ arguments, eval.child)
      val child = if (inner.isEmpty) rows else copy(eval, inner.values.toSeq, rows, groups)
      val stacked = groups.tails.filter(_.nonEmpty).foldLeft(child) { (below, rest) =>
        copy(eval, rest.head, below, rest.tail)
      }
      Some(stacked)
    }
  }

  /** Those without a profile first, so that they run in front of all that hold a GPU. */
  private def grouped(udfs: Udfs): Seq[Udfs] =
    udfs.groupBy { case (udf, _) => profile(udf) }.toSeq.sortBy(_._1).map(_._2)

  private def profile(udf: PythonUDF): Int = GpuMark.of(udf).fold(-1)(_.profile.id)

  /** Called on a column where it was called on the result of a function of another profile. */
  private def cut(
      udf: PythonUDF,
      inner: mutable.Map[Expression, (PythonUDF, Attribute)],
      arguments: mutable.Buffer[Alias]): PythonUDF = udf.children match {
    case Seq(on: PythonUDF) if profile(on) == profile(udf) => withArguments(udf, Seq(cut(on, inner, arguments)))
    case Seq(on: PythonUDF) =>
      val known = if (on.deterministic) on.canonicalized else on
      val (_, column) = inner.getOrElseUpdate(known, (on, AttributeReference("pythonUDF", on.dataType, on.nullable)()))
      withArguments(udf, Seq(column))
    case children => withArguments(udf, children.map {
      case argument if argument.exists(_.isInstanceOf[PlanExpression[_]]) =>
        arguments += Alias(argument, "argument")()
        arguments.last.toAttribute
      case argument => argument
    })
  }

  private def withArguments(udf: PythonUDF, arguments: Seq[Expression]): PythonUDF =
    udf.withNewChildren(arguments).asInstanceOf[PythonUDF]

  /** @param behind what stands between it and the operators above `eval`, the nearest first */
  private def copy(eval: BaseEvalPython, group: Udfs, child: LogicalPlan, behind: Seq[Udfs]): LogicalPlan = {
    val (functions, columns) = group.unzip
    val made = eval match {
      case arrow: ArrowEvalPython => arrow.copy(udfs = functions, resultAttrs = columns, child = child)
      case batch: BatchEvalPython => batch.copy(udfs = functions, resultAttrs = columns, child = child)
    }
    val above = Above.of(eval)
    val (cpu, gpu) = behind.span(udfs => profile(udfs.head._1) < 0)
    val operators = cpu.map(_ => eval.nodeName) ++ (if (gpu.isEmpty) above.operators else Nil)
    made.setTagValue(Above.Tag, above.copy(operators = operators))
    made
  }
}
