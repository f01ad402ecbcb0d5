package org.apache.spark.sql.dagopt

import scala.collection.mutable

import org.apache.spark.rdd.{RDD, UnionRDD}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.{GpuForm, GpuParts, GpuQuestion, GpuStages}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * GPU operators of Spark's in one of several forms, all with the same rows in the same partitions
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
 * @param gpu Spark's own nodes over a [[RowsExec]], which is given the rows of a slice
 */
private[dagopt] case class GpuStageExec(gpu: SparkPlan, child: SparkPlan, above: Above) extends UnaryExecNode {
  import GpuStageExec._

  /** Of the first slice; Spark shows its metrics. A node remembers the RDD that it gave, so each has one use. */
  @transient private lazy val runner = fresh()
  @transient private var used = false
  @transient private lazy val shuffles = new IdentityShuffle.Metrics(sparkContext)

  def profile: Option[ResourceProfile] = Marked.of(gpu).map(_.profile).orElse(GpuOperators.profile(gpu))

  /** Whether its functions run on CPU slots too: the same nodes, not under the profile. */
  def hasCpuForm: Boolean = Marked.of(gpu).exists(_.hasCpuForm)

  override def output: Seq[Attribute] = gpu.output
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override def requiredChildDistribution: Seq[Distribution] = lowest.requiredChildDistribution
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = lowest.requiredChildOrdering
  override def outputPartitioning: Partitioning = runner.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = runner.outputOrdering
  override lazy val metrics: Map[String, SQLMetric] = runner.metrics ++ shuffles.all
  override def nodeName: String = "GpuStage"
  override def stringArgs: Iterator[Any] =
    gpu.collect { case node if !node.isInstanceOf[RowsExec] => node.simpleString(conf.maxToStringFields) }.iterator

  /** Two of them are equal if Spark's own nodes would be, so that exchanges above are still reused. */
  override protected def doCanonicalize(): SparkPlan = over(child).canonicalized

  override protected def withNewChildInternal(newChild: SparkPlan): GpuStageExec = copy(child = newChild)

  /** A new node takes the session of its thread, and threads of the user's may have none. */
  private def over(node: SparkPlan): SparkPlan =
    session.withActive(gpu.transform { case _: RowsExec => node })

  private def lowest: SparkPlan = gpu.find(_.children.exists(_.isInstanceOf[RowsExec])).get

  private def fresh(): SparkPlan = session.withActive {
    over(RowsExec(child.output, child.outputPartitioning, child.outputOrdering))
  }

  private def computed(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val node = if (used) fresh() else runner
    used = true
    node.collectLeaves().head.asInstanceOf[RowsExec].rows = rows
    Marked.run(node)
  }

  /** What `dagopt learn` finds the costs of a part by. */
  private def named(part: String): String = s"GPU stage $signature, $part part"

  @transient private lazy val signature = GpuStages.number(PlanText.of(this))

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val count = rows.getNumPartitions
    if (profile.isEmpty || !GpuStages.isOn || !IdentityShuffle.isPossible || !SliceRDD.isPossible) computed(rows)
    else {
      val question = this.question(count, Profiles.conflict(rows, profile.get))
      var form = GpuStages.formOf(question)
      var from = 0
      val measured = mutable.Buffer.empty[RDD[InternalRow]]
      while (form.askAgain) {
        val until = from + form.slices.head
        val first = slice(rows, from, until, 0, form)
        first.shuffle.foreach(_.runNow())
        GpuStages.awaitMeasured(form.id)
        measured += first.rows
        from = until
        val follows = measured.map(_ => FirstSlice).toSeq ++ above.operators
        form = GpuStages.formOf(question.copy(numPartitions = count - from, follows = follows))
      }
      union(measured.toSeq ++ run(rows, from, form))
    }
  }

  /**
   * About that many of its partitions.
   *
   * @param mustSplit whether another profile stands in front of it in the same stage
   */
  def question(numPartitions: Int, mustSplit: Boolean): GpuQuestion = GpuQuestion(
    signature, gpu.nodeName, numPartitions, profile.get, above.operators, above.limited,
    above.setting, mustSplit)

  /** The partitions from `from` on in a form, which is one for all of them. */
  private def run(rows: RDD[InternalRow], from: Int, form: GpuForm): Seq[RDD[InternalRow]] = {
    val starts = form.slices.scanLeft(from)(_ + _)
    form.slices.indices.map(i => slice(rows, starts(i), starts(i + 1), i, form).rows)
  }

  private def union(parts: Seq[RDD[InternalRow]]): RDD[InternalRow] =
    if (parts.length == 1) parts.head else new UnionRDD(sparkContext, parts)

  private def slice(rows: RDD[InternalRow], from: Int, until: Int, index: Int, form: GpuForm): Slice = {
    val total = rows.getNumPartitions
    val length = until - from
    /** Its tasks keep the numbers that they have in the whole. */
    def numbered(rdd: RDD[InternalRow], first: Int): RDD[InternalRow] =
      if (length == total) rdd else new SliceRDD(rdd, first, length, from, total)

    val some = numbered(rows, from)
    def shuffled(rdd: RDD[InternalRow], columns: Seq[Attribute], names: IdentityShuffle.Names) =
      IdentityShuffle(rdd, columns, shuffles, names)

    // Operators behind it without a shuffle would count as its own.
    val isAlone = form.after || above.operators.isEmpty
    val inFront = IdentityShuffle.Names(Some(named("cpu")), if (isAlone) Some(named("gpu")) else None)
    val before = if (form.before) shuffled(some, child.output, inFront) else None
    val results = numbered(computed(before.fold(some)(_.rows)), 0)
    val behind = IdentityShuffle.Names(None, if (above.sharesStage) None else Some(named("rest")))
    val after = if (form.after) shuffled(results, output, behind) else None
    val parts = GpuParts(results.id, before.fold(-1)(_.id), after.fold(-1)(_.id), after.fold(-1)(_.rows.id), total)
    GpuStages.measure(form, index, parts)
    Slice(after.fold(results)(_.rows), after)
  }
}

private[dagopt] object GpuStageExec {
  /** Stands for the union with it among the operators that follow the rest, once for each that was measured. */
  private val FirstSlice = "the first slice"

  /** @param shuffle the one that it ends in, if it does */
  private final case class Slice(rows: RDD[InternalRow], shuffle: Option[IdentityShuffle])
}

/** Rows that were computed elsewhere, as the leaf under nodes of Spark's. No two are the same. */
private[dagopt] case class RowsExec(
    output: Seq[Attribute],
    override val outputPartitioning: Partitioning = UnknownPartitioning(0),
    override val outputOrdering: Seq[SortOrder] = Nil) extends LeafExecNode {
  @transient var rows: RDD[InternalRow] = _
  override protected def doExecute(): RDD[InternalRow] = rows
  override def equals(other: Any): Boolean = other match {
    case node: RowsExec => node eq this
    case _ => false
  }
  override def hashCode(): Int = System.identityHashCode(this)
}
