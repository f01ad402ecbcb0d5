package org.apache.spark.sql.dagopt

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.dagopt.GpuStages
import org.apache.spark.sql.execution.{CoalesceExec, QueryExecution, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange}

/** What `dagopt.explain` calls: the form that each GPU stage of a query would get now. Runs no job. */
object GpuExplain {
  /** A line of JSON for each GPU stage, those that run first in front. */
  def lines(query: QueryExecution): Array[String] = {
    val found = new ArrayBuffer[GpuStageExec]
    collect(query.executedPlan, found)
    found.map(line).toArray
  }

  private def collect(plan: SparkPlan, found: ArrayBuffer[GpuStageExec]): Unit = {
    val (node, inputs) = PlanText.operator(plan)
    inputs.foreach(collect(_, found))
    node match {
      case stage: GpuStageExec => found += stage
      case _ =>
    }
  }

  private def line(stage: GpuStageExec): String = {
    val count = numPartitions(stage.child)
    val question = stage.question(count.getOrElse(0), hasOther(stage))
    val shown: ObjectNode =
      if (count.isEmpty) GpuStages.unknown(question, "its number of partitions is only known when it runs")
      else GpuStages.preview(question)
    shown.put("profile", text(question.profile)).put("has_cpu_form", stage.hasCpuForm)
    names(shown, "front", PlanText.stage(stage.child))
    names(shown, "operators", stage.gpu.collect { case node if !node.isInstanceOf[RowsExec] => node }.reverse)
    shown.toString
  }

  /** Whether another profile stands in front of it in the same stage. */
  def hasOther(stage: GpuStageExec): Boolean =
    inFront(stage.child).flatMap(_.profile).exists(other => stage.profile.forall(_.id != other.id))

  private def inFront(plan: SparkPlan): Seq[GpuStageExec] = PlanText.operator(plan) match {
    case (stage: GpuStageExec, _) => Seq(stage)
    case (_: Exchange, _) => Nil
    case (_, inputs) => inputs.flatMap(inFront)
  }

  private def names(to: ObjectNode, field: String, nodes: Seq[SparkPlan]): Unit = {
    val array = to.putArray(field)
    nodes.foreach(node => array.add(node.nodeName))
  }

  private def text(profile: ResourceProfile): String =
    profile.taskResources.toSeq.sortBy(_._1).map { case (name, request) =>
      s"${BigDecimal(request.amount).bigDecimal.stripTrailingZeros.toPlainString} $name"
    }.mkString(", ")

  /**
   * None where only running the plan shows it. The RDD of a plan is not asked where making it could
   * run a job: a shuffle may sample its input, a broadcast and a subquery are jobs, and so is a cached
   * plan that adaptive execution has not run yet.
   */
  private def numPartitions(plan: SparkPlan): Option[Int] = {
    val (node, inputs) = PlanText.operator(plan)
    node match {
      case exchange: Exchange => known(exchange)
      case _ if isSafe(node) && !inputs.exists(hasJobs) => Some(node.execute().getNumPartitions)
      case union: UnionExec =>
        val counts = union.children.map(numPartitions)
        if (counts.forall(_.isDefined)) Some(counts.flatten.sum) else None
      case coalesce: CoalesceExec => numPartitions(coalesce.child).map(math.min(_, coalesce.numPartitions))
      case other => inputs.filterNot(isBroadcast) match {
        case Seq(one) => numPartitions(one)
        case _ => known(other)
      }
    }
  }

  private def isBroadcast(plan: SparkPlan): Boolean = PlanText.operator(plan)._1.isInstanceOf[BroadcastExchangeLike]

  private def known(plan: SparkPlan): Option[Int] = Some(plan.outputPartitioning.numPartitions).filter(_ > 0)

  private def hasJobs(plan: SparkPlan): Boolean = {
    val (node, inputs) = PlanText.operator(plan)
    !isSafe(node) || inputs.exists(hasJobs)
  }

  private def isSafe(node: SparkPlan): Boolean = node match {
    case _: Exchange | _: GpuStageExec => false
    case cached: InMemoryTableScanExec => cached.relation.cacheBuilder.isCachedColumnBuffersLoaded
    case other => other.subqueries.isEmpty
  }
}
