package org.apache.spark.sql.dagopt

import org.apache.spark.rdd.{PartitionPruningRDD, RDD, UnionRDD}
import org.apache.spark.scheduler.dagopt.{GpuForm, GpuParts, GpuQuestion, GpuStages}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * A GPU operator of Spark's in one of several forms, all with the same rows in the same partitions
 * and in the same order:
 *
 *  - fused: Spark's own. The operator runs in one stage with those in front of it.
 *  - split: an [[IdentityShuffle]] before the operator, and one behind it or not. What stands in front
 *    of it runs on all CPU slots, and what stands behind the second one under the default profile.
 *  - sliced: the same for each of several slices of partitions, so that the GPU stage of one runs
 *    beside the CPU stage of the next; then their union.
 *
 * Which, the planner says when the operator is executed, since only then the number of partitions
 * is known. In doubt it is the fused form.
 *
 * @param gpu Spark's own node over a [[RowsExec]], which is given the rows of a slice
 */
private[dagopt] case class GpuStageExec(gpu: SparkPlan, child: SparkPlan, above: Above) extends UnaryExecNode {
  import GpuStageExec._

  /** Of the first slice; Spark shows its metrics. A node remembers the RDD that it gave, so each has one use. */
  @transient private lazy val runner = fresh()
  @transient private var used = false
  @transient private lazy val shuffles = new IdentityShuffle.Metrics(sparkContext)

  override def output: Seq[Attribute] = gpu.output
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override def outputPartitioning: Partitioning = runner.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = runner.outputOrdering
  override lazy val metrics: Map[String, SQLMetric] = runner.metrics ++ shuffles.all
  override def nodeName: String = "GpuStage"
  override def stringArgs: Iterator[Any] = Iterator(gpu.simpleString(conf.maxToStringFields))

  /** Two of them are equal if Spark's own nodes would be, so that exchanges above are still reused. */
  override protected def doCanonicalize(): SparkPlan = gpu.withNewChildren(Seq(child)).canonicalized

  override protected def withNewChildInternal(newChild: SparkPlan): GpuStageExec = copy(child = newChild)

  private def fresh(): SparkPlan =
    gpu.withNewChildren(Seq(RowsExec(child.output, child.outputPartitioning, child.outputOrdering)))

  private def over(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val node = if (used) fresh() else runner
    used = true
    node.children.head.asInstanceOf[RowsExec].rows = rows
    node.execute()
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val profile = GpuOperators.profile(gpu)
    val count = rows.getNumPartitions
    if (profile.isEmpty || !GpuStages.isOn || !IdentityShuffle.isPossible) over(rows)
    else {
      def ask(numPartitions: Int): GpuForm = GpuStages.formOf(question(numPartitions))
      val form = ask(count)
      if (!form.askAgain) run(rows, 0, form)
      else {
        val probed = form.slices.head
        val first = slice(rows, 0, probed, 0, form)
        first.shuffle.foreach(_.runNow())
        GpuStages.awaitMeasured(form.id)
        val rest = run(rows, probed, ask(count - probed))
        new UnionRDD(sparkContext, Seq(first.rows, rest))
      }
    }
  }

  /** About that many of its partitions. */
  def question(numPartitions: Int): GpuQuestion = GpuQuestion(
    PlanText.of(this), gpu.nodeName, numPartitions, GpuOperators.profile(gpu).get, above.operators, above.limited)

  /** The partitions from `from` on in a form, which is one for all of them. */
  private def run(rows: RDD[InternalRow], from: Int, form: GpuForm): RDD[InternalRow] = {
    val starts = form.slices.scanLeft(from)(_ + _)
    val slices = form.slices.indices.map(i => slice(rows, starts(i), starts(i + 1), i, form).rows)
    if (slices.length == 1) slices.head else new UnionRDD(sparkContext, slices)
  }

  private def slice(rows: RDD[InternalRow], from: Int, until: Int, index: Int, form: GpuForm): Slice = {
    val some =
      if (from == 0 && until == rows.getNumPartitions) rows
      else PartitionPruningRDD.create(rows, (partition: Int) => from <= partition && partition < until)
    val before = if (form.before) IdentityShuffle(some, child.output, shuffles) else None
    val computed = over(before.fold(some)(_.rows))
    val after = if (form.after) IdentityShuffle(computed, output, shuffles) else None
    GpuStages.measure(form.id, index, GpuParts(computed.id, before.fold(-1)(_.id), after.fold(-1)(_.id)))
    Slice(after.fold(computed)(_.rows), after)
  }
}

private[dagopt] object GpuStageExec {
  /** @param shuffle the one that it ends in, if it does */
  private final case class Slice(rows: RDD[InternalRow], shuffle: Option[IdentityShuffle])
}

/** Rows that were computed elsewhere, as the child of a node of Spark's. */
private[dagopt] case class RowsExec(
    output: Seq[Attribute],
    override val outputPartitioning: Partitioning = UnknownPartitioning(0),
    override val outputOrdering: Seq[SortOrder] = Nil) extends LeafExecNode {
  @transient var rows: RDD[InternalRow] = _
  override protected def doExecute(): RDD[InternalRow] = rows
}
