package org.apache.spark.sql.dagopt

import java.io.{IOException, ObjectOutputStream}

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.spark._
import org.apache.spark.api.java.JavaRDD
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.{GpuParts, GpuQuestion, GpuStages}
import org.apache.spark.util.{MutablePair, Utils}

/**
 * The rows of `front`, each in its partition and in its order, with a shuffle that moves nothing
 * between the two or without one. As in [[IdentityShuffle]], each task writes its partition as one
 * block, and the task of the same partition reads this block alone.
 *
 * Which of the two it is, the planner says when an action first looks at the dependencies, and that
 * is on the thread of the action. From then on this RDD stays what it is.
 */
private[dagopt] final class GpuStageRDD[A: ClassTag](
    @transient private var front: RDD[A], @transient private val profile: ResourceProfile, site: String)
    extends RDD[A](front.sparkContext, Nil) {
  import GpuStageRDD._

  @transient override val partitioner: Option[Partitioner] = front.partitioner

  override protected def getPartitions: Array[Partition] =
    Array.tabulate[Partition](front.getNumPartitions)(new SamePartition(_, this))

  override protected def getDependencies: Seq[Dependency[_]] = {
    val form = GpuStages.formOf(question(front, profile, site))
    val shuffle =
      if (!form.before) None
      else try Some(shuffleOf(front)) catch {
        case t: Throwable => GpuStages.failed("inserting a shuffle", t); None
      }
    GpuStages.measure(form, 0, GpuParts(id, shuffle.fold(-1)(_.shuffleId), -1, -1, front.getNumPartitions))
    Seq(shuffle.getOrElse(new OneToOneDependency(front)))
  }

  private def shuffle: Option[ShuffleDependency[Int, A, A]] = dependencies.head match {
    case made: ShuffleDependency[_, _, _] => Some(made.asInstanceOf[ShuffleDependency[Int, A, A]])
    case _ => None
  }

  override def compute(split: Partition, context: TaskContext): Iterator[A] = shuffle match {
    case Some(made) =>
      val metrics = context.taskMetrics().createTempShuffleReadMetrics()
      SparkEnv.get.shuffleManager
        .getReader[Int, A](made.shuffleHandle, split.index, split.index + 1, 0, 1, context, metrics)
        .read().map(_._2)
    case None => firstParent[A].iterator(split.asInstanceOf[SamePartition].inFront, context)
  }

  override protected def getPreferredLocations(split: Partition): Seq[String] = shuffle match {
    case Some(made) =>
      val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      tracker.getMapLocation(made, split.index, split.index + 1)
    case None => front.preferredLocations(front.partitions(split.index))
  }

  /** Recomputing a block gives the same rows if recomputing its partition does. */
  override protected def getOutputDeterministicLevel: DeterministicLevel.Value =
    dependencies.head.rdd.outputDeterministicLevel

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    front = null
  }

  /** A partition in front of the shuffle may carry data, and is not sent to tasks behind it. */
  private def inFrontOf(index: Int): Partition = if (shuffle.isEmpty) front.partitions(index) else null
}

private[dagopt] object GpuStageRDD {

  /**
   * What `dagopt.gpu_stage` calls. Null where the RDD is to stay as Spark has it: while dagopt is off
   * or does not act, behind a barrier stage, and where something goes wrong.
   *
   * @param site where in the program, which tells the stage from others
   */
  def of(front: RDD[Any], profile: ResourceProfile, site: String): JavaRDD[Any] =
    try {
      if (!GpuStages.isOn || GpuStages.boundary == "never" || !IdentityShuffle.isPossible || front.isBarrier()) null
      else if (GpuStages.acts) new GpuStageRDD[Any](front, profile, site).toJavaRDD()
      else {
        // Decided, told, and not done.
        GpuStages.formOf(question(front, profile, site))
        null
      }
    } catch { case t: Throwable => GpuStages.failed("making a GPU stage", t); null }

  private def question(front: RDD[_], profile: ResourceProfile, site: String): GpuQuestion = GpuQuestion(
    GpuStages.number(s"$site ${lineage(front)}"), "gpu_stage", front.getNumPartitions, profile, Nil, limited = false,
    None, Profiles.conflict(front, profile), sliceable = false)

  /** How the rows come about since the last shuffle, in words, the last step first. */
  private def lineage(front: RDD[_]): String = {
    val open = mutable.Queue[RDD[_]](front)
    val seen = mutable.LinkedHashSet[RDD[_]]()
    while (open.nonEmpty && seen.size < MaxSteps) {
      val rdd = open.dequeue()
      if (seen.add(rdd)) rdd.dependencies.foreach {
        case narrow: NarrowDependency[_] => open.enqueue(narrow.rdd)
        case _ =>
      }
    }
    seen.map(rdd => s"${rdd.scope.fold(rdd.getClass.getSimpleName)(_.name)} ${rdd.creationSite.shortForm}").mkString("; ")
  }

  private val MaxSteps = 100

  private def shuffleOf[A: ClassTag](front: RDD[A]): ShuffleDependency[Int, A, A] = {
    val pairs = front.mapPartitions[Product2[Int, A]](
      // The writer serialises a pair before it asks for the next one.
      { rows => val pair = new MutablePair[Int, A](); rows.map(row => pair.update(0, row)) },
      preservesPartitioning = true)
    val made = new ShuffleDependency[Int, A, A](
      pairs, new HashPartitioner(1), new ElementSerializer(SparkEnv.get.serializer))
    // Merged blocks could not be told apart by their map.
    made.setShuffleMergeAllowed(false)
    made
  }

  private final class SamePartition(override val index: Int, @transient rdd: GpuStageRDD[_]) extends Partition {
    var inFront: Partition = _

    @throws(classOf[IOException])
    private def writeObject(out: ObjectOutputStream): Unit = Utils.tryOrIOException {
      inFront = rdd.inFrontOf(index)
      out.defaultWriteObject()
    }
  }
}
