package org.apache.spark.sql.dagopt

import java.util.concurrent.CompletableFuture

import scala.collection.mutable
import scala.util.Failure
import scala.util.control.NonFatal

import org.apache.spark.FutureAction
import org.apache.spark.rdd.{DeterministicLevel, RDD, UnionRDD}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.{GpuForm, GpuParts, GpuQuestion, GpuStages}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{LeafExecNode, ProjectExec, SparkPlan, SQLExecution, UnaryExecNode}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.util.ThreadUtils

/**
 * GPU operators of Spark's in one of several forms, all with the same rows in the same partitions
 * and in the same order:
 *
 *  - fused: Spark's own. The operator runs in one stage with those in front of it.
 *  - split: an [[IdentityShuffle]] before the operator, and one behind it or not. What stands in front
 *    of it runs on all CPU slots, and what stands behind the second one under the default profile.
 *  - sliced: the same for each of several slices of partitions, so that the GPU stage of one runs
 *    beside the CPU stage of the next; then their union.
 *  - shifting: slices in a [[SliceRun]], some of which run in the operator's CPU form.
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
  def hasCpuForm: Boolean = gpu.collect {
    case node if !node.isInstanceOf[RowsExec] && !node.isInstanceOf[ProjectExec] => Marked.of(node)
  }.forall(_.exists(_.hasCpuForm))

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

  private def computed(rows: RDD[InternalRow]): RDD[InternalRow] = Marked.run(nodesOn(rows))

  /** In the operator's CPU form, which its functions take where they find no GPU. */
  private def computedOnCpus(rows: RDD[InternalRow]): RDD[InternalRow] = nodesOn(rows).execute()

  private def nodesOn(rows: RDD[InternalRow]): SparkPlan = {
    val node = if (used) fresh() else runner
    used = true
    node.collectLeaves().head.asInstanceOf[RowsExec].rows = rows
    node
  }

  /** What `dagopt learn` finds the costs of a part by. */
  private def named(part: String): String = s"GPU stage $signature, $part part"

  @transient private lazy val signature = GpuStages.number(PlanText.of(this))

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    val count = rows.getNumPartitions
    if (profile.isEmpty || !GpuStages.isOn || !IdentityShuffle.isPossible || !SliceRDD.isPossible) computed(rows)
    else {
      // Where rows change when they are computed again, Spark goes back to what was made of the old ones, but
      // within the jobs that run: so all of it is one job.
      val isRepeatable = rows.outputDeterministicLevel != DeterministicLevel.INDETERMINATE
      val question = this.question(count, Profiles.conflict(rows, profile.get)).copy(sliceable = isRepeatable)
      var form = GpuStages.formOf(question)
      var from = 0
      val measured = mutable.Buffer.empty[Slice]
      try {
        while (form.askAgain) {
          val until = from + form.slices.head
          measured += slice(rows, from, until, 0, form)
          measured.last.measure(form.id)
          from = until
          val follows = measured.map(_ => FirstSlice).toSeq ++ above.operators
          form = GpuStages.formOf(question.copy(numPartitions = count - from, follows = follows))
        }
        if (form.stepwise) union(stepwise(rows, from, form, measured.toSeq))
        else union(measured.map(_.rows).toSeq ++ run(rows, from, form).map(_.rows))
      } catch { case t: Throwable => measured.foreach(_.job.foreach(_.cancel())); throw t }
    }
  }

  /**
   * About that many of its partitions.
   *
   * @param mustSplit whether another profile stands in front of it in the same stage
   */
  def question(numPartitions: Int, mustSplit: Boolean): GpuQuestion = GpuQuestion(
    signature, gpu.nodeName, numPartitions, profile.get, above.operators, above.limited,
    above.setting, mustSplit, hasCpuForm = hasCpuForm)

  /** The partitions from `from` on in a form, which is one for all of them. */
  private def run(rows: RDD[InternalRow], from: Int, form: GpuForm): Seq[Slice] = {
    val starts = form.slices.scanLeft(from)(_ + _)
    form.slices.indices.map(i => slice(rows, starts(i), starts(i + 1), i, form))
  }

  /** The same step by step, after those that were measured and may still run. */
  private def stepwise(
      rows: RDD[InternalRow], from: Int, form: GpuForm, measured: Seq[Slice]): Seq[RDD[InternalRow]] = {
    val all = measured ++ run(rows, from, form)
    val steps = for (slice <- all; before <- slice.before; after <- slice.after) yield {
      val (first, length) = (slice.from, slice.length)
      val step = new SliceRun.Slice(length, before, after, () => cpuOnly(rows, first, length))
      slice.job.fold(step)(job => step.running(job))
    }
    if (steps.length == all.length) new SliceRun(form, profile.get, queryId, steps).rows() else all.map(_.rows)
  }

  private def queryId: String = sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)

  /** The partitions in their CPU form; None if it cannot be made. */
  private def cpuOnly(rows: RDD[InternalRow], from: Int, length: Int): Option[IdentityShuffle] =
    try shuffled(onCpus(rows, from, length), output, IdentityShuffle.Names(Some(named("cpu-only")), None))
    catch { case NonFatal(t) => GpuStages.failed("making a CPU form", t); None }

  private def onCpus(rows: RDD[InternalRow], from: Int, length: Int): RDD[InternalRow] = {
    val total = rows.getNumPartitions
    numbered(computedOnCpus(numbered(rows, from, from, length, total)), 0, from, length, total)
  }

  private def shuffled(rdd: RDD[InternalRow], columns: Seq[Attribute], names: IdentityShuffle.Names) =
    IdentityShuffle(rdd, columns, shuffles, names)

  /** Partitions of `rdd` from `first` on, whose tasks have the numbers that they have in the whole. */
  private def numbered(
      rdd: RDD[InternalRow], first: Int, from: Int, length: Int, total: Int): RDD[InternalRow] =
    if (length == total) rdd else new SliceRDD(rdd, first, length, from, total)

  private def union(parts: Seq[RDD[InternalRow]]): RDD[InternalRow] =
    if (parts.length == 1) parts.head else new UnionRDD(sparkContext, parts)

  private def slice(rows: RDD[InternalRow], from: Int, until: Int, index: Int, form: GpuForm): Slice = {
    val total = rows.getNumPartitions
    val length = until - from
    val some = numbered(rows, from, from, length, total)
    // Operators behind it without a shuffle would count as its own.
    val isAlone = form.after || above.operators.isEmpty
    val inFront = IdentityShuffle.Names(Some(named("cpu")), if (isAlone) Some(named("gpu")) else None)
    val before = if (form.before) shuffled(some, child.output, inFront) else None
    val results = numbered(computed(before.fold(some)(_.rows)), 0, from, length, total)
    val behind = IdentityShuffle.Names(None, if (above.sharesStage) None else Some(named("rest")))
    val after = if (form.after) shuffled(results, output, behind) else None
    val parts = GpuParts(results.id, before.fold(-1)(_.id), after.fold(-1)(_.id), after.fold(-1)(_.rows.id), total)
    GpuStages.measure(form, index, parts)
    new Slice(from, length, results, before, after)
  }
}

private[dagopt] object GpuStageExec {
  /** Stands for the union with it among the operators that follow the rest, once for each that was measured. */
  private val FirstSlice = "the first slice"

  /** The partitions of a slice, from `from` on. */
  private final class Slice(
      val from: Int,
      val length: Int,
      results: RDD[InternalRow],
      val before: Option[IdentityShuffle],
      val after: Option[IdentityShuffle]) {
    /** That computes it already. */
    var job: Option[FutureAction[_]] = None

    def rows: RDD[InternalRow] = after.fold(results)(_.rows)

    /** Starts it, and waits until what was asked for of it was told to the planner. */
    def measure(id: Long): Unit = {
      val measured = GpuStages.measured(id)
      after.map(_.start()).foreach { started =>
        job = Some(started)
        val ended = new CompletableFuture[Unit]()
        started.onComplete { _ => ended.complete(()) }(ThreadUtils.sameThread)
        CompletableFuture.anyOf(measured, ended).get()
        started.value.collect { case Failure(thrown) => throw thrown }
        GpuStages.awaitMeasured(id)
      }
    }
  }
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
