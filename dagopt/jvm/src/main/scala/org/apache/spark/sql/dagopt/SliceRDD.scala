package org.apache.spark.sql.dagopt

import java.lang.reflect.Field

import scala.reflect.ClassTag
import scala.util.Try

import org.apache.spark.{Partition, RangeDependency, TaskContext, TaskContextImpl}
import org.apache.spark.rdd.RDD

/**
 * The partitions `from` to `from + length` of an RDD, as if all of it were computed: their tasks have
 * the numbers that they would have had, which `TaskContext` tells to user functions, Python's included.
 * It must be the last RDD of its stage in which numbers count.
 *
 * @param number of the first partition in the whole, of which there are `total`
 */
private[dagopt] final class SliceRDD[A: ClassTag](rdd: RDD[A], from: Int, length: Int, number: Int, total: Int)
    extends RDD[A](rdd.sparkContext, Seq(new RangeDependency(rdd, from, 0, length))) {

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(length)(i => SlicePartition(i, rdd.partitions(from + i)))

  override def compute(split: Partition, context: TaskContext): Iterator[A] = {
    SliceRDD.renumber(context, number + split.index, total)
    firstParent[A].iterator(split.asInstanceOf[SlicePartition].whole, context)
  }
}

private final case class SlicePartition(index: Int, whole: Partition) extends Partition

private[dagopt] object SliceRDD {
  /**
   * A task's numbers are constants of its context, and a context of our own that stands in for Spark's
   * would have to know all its members, which change with each version.
   */
  private lazy val fields: Seq[Field] = Seq("partitionId", "numPartitions").map { name =>
    val field = classOf[TaskContextImpl].getDeclaredField(name)
    field.setAccessible(true)
    field
  }

  /** Whether tasks can be given other numbers than Spark's. Asked on the driver, which has the same classes. */
  lazy val isPossible: Boolean = Try(fields).isSuccess

  private def renumber(context: TaskContext, number: Int, total: Int): Unit =
    fields.zip(Seq(number, total)).foreach { case (field, value) => field.setInt(context, value) }
}
