package org.apache.spark.sql.dagopt

import java.util.Locale

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/**
 * `df.hint("dagopt", "never")`: the value of `spark.dagopt.boundary` for the GPU operators of `df`, of
 * several hints the nearest. Without dagopt Spark drops the hint with a warning.
 */
private[dagopt] final class BoundaryHint extends Rule[LogicalPlan] with Logging {
  override def apply(plan: LogicalPlan): LogicalPlan =
    try plan.resolveOperatorsUp {
      case UnresolvedHint(name, parameters, child) if name.toLowerCase(Locale.ROOT) == "dagopt" =>
        // How a name without quotes is shown in SQL.
        parameters.map(_.toString.stripPrefix("'").toLowerCase(Locale.ROOT)) match {
          case Seq(value) if BoundaryHint.Values.contains(value) =>
            // Other DataFrames may share the nodes.
            val own = child.clone()
            own.foreach { node => if (BoundaryHint.of(node).isEmpty) node.setTagValue(BoundaryHint.Tag, value) }
            own
          case other =>
            logWarning(s"the hint dagopt(${other.mkString(", ")}) is dropped: allowed is " +
              BoundaryHint.Values.mkString(", "))
            child
        }
    } catch { case t: Throwable => GpuStages.failed("reading a hint", t); plan }
}

private[dagopt] object BoundaryHint {
  private val Tag = TreeNodeTag[String]("dagopt.boundary")
  val Values: Seq[String] = Seq("auto", "always", "never")

  def of(plan: LogicalPlan): Option[String] = plan.getTagValue(Tag)
}
