package org.apache.spark.scheduler.dagopt

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, TimeUnit, TimeoutException}
import java.util.concurrent.atomic.AtomicLong

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

/** What Python calls through py4j. Never throws. */
object Dagopt {
  @volatile private[dagopt] var current: Reports = _

  /** The planner's report with the gate's counters under "gate", as JSON; only these without a planner. */
  def reportJson(): String =
    try {
      val reports = current
      if (reports == null) """{"gate":{"off_reason":"the plugin is not loaded"}}""" else reports.json()
    } catch {
      case t: Throwable =>
        val failed = Wire.mapper.createObjectNode()
        failed.putObject("gate").put("off_reason", s"no report: $t")
        failed.toString
    }
}

/** Asks the planner for its report. Any thread. */
private[dagopt] final class Reports(counters: Counters, switch: Switch) {
  private val asked = new ConcurrentHashMap[Long, CompletableFuture[JsonNode]]()
  private val ids = new AtomicLong()
  @volatile var planner: PlannerProcess = _
  /** `spark.dagopt.mode`, once it is known. */
  @volatile var mode: String = _

  def arrived(id: Long, body: JsonNode): Unit = {
    val waiting = asked.remove(id)
    if (waiting != null) waiting.complete(body)
  }

  def json(): String = {
    val body = fromPlanner() match {
      case o: ObjectNode => o
      case _ => Wire.mapper.createObjectNode()
    }
    if (mode != null) body.put("mode", mode)
    val gate = body.putObject("gate")
    counters.toSeq.foreach { case (name, value) => gate.put(name, value) }
    gate.put("off_reason", switch.reason)
    body.toString
  }

  private def fromPlanner(): JsonNode = {
    val to = planner
    if (to == null || switch.isOff) null
    else {
      val id = ids.incrementAndGet()
      val answer = new CompletableFuture[JsonNode]()
      asked.put(id, answer)
      try if (to.send(Messages.report(id))) answer.get(Reports.WaitS, TimeUnit.SECONDS) else null
      catch { case _: TimeoutException => null }
      finally asked.remove(id)
    }
  }
}

private[dagopt] object Reports {
  private val WaitS = 5L
}
