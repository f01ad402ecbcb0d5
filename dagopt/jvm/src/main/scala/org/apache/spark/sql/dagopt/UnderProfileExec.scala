package org.apache.spark.sql.dagopt

import org.apache.spark.rdd.RDD
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * A GPU operator of two inputs, as Spark plans it, under its profile. It has no forms to choose from: Spark
 * puts shuffles in front of it as it is, and what sorts their rows in its stage runs under the profile too.
 */
private[dagopt] case class UnderProfileExec(child: SparkPlan, profile: ResourceProfile, above: Above) extends UnaryExecNode {
  @transient private lazy val shuffles = new IdentityShuffle.Metrics(sparkContext)

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override lazy val metrics: Map[String, SQLMetric] = shuffles.all
  override def nodeName: String = "GpuStage"
  override def stringArgs: Iterator[Any] = Iterator.empty
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override protected def withNewChildInternal(newChild: SparkPlan): UnderProfileExec = copy(child = newChild)

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    if (Profiles.conflict(rows, profile)) {
      logWarning(s"dagopt leaves ${child.nodeName} without its profile: another one stands in front of it in its stage")
      rows
    } else {
      rows.withResources(profile)
      if (endsHere) IdentityShuffle(rows, output, shuffles, IdentityShuffle.Names(None, None)).fold(rows)(_.rows) else rows
    }
  }

  /** Whether a shuffle keeps what follows from running under the profile. */
  private def endsHere: Boolean = GpuStages.isOn && IdentityShuffle.isPossible &&
    (above.setting.getOrElse(GpuStages.boundary) match {
      case "never" => false
      case "always" => above.operators.nonEmpty
      case _ => above.sharesStage
    })
}
