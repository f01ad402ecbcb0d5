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
      if (reports == null) off(whyNotLoaded) else reports.json()
    } catch {
      case t: Throwable => off(s"no report: $t")
    }

  private def whyNotLoaded: String = {
    val refusal = BuildInfo.refusal()
    if (refusal == null) "the plugin is not loaded in this application, see the start of the driver's log" else refusal
  }

  private def off(reason: String): String = {
    val body = Wire.mapper.createObjectNode()
    body.putObject("gate").put("off_reason", reason)
    body.toString
  }
}

/** Asks the planner for its report. Any thread. */
private[dagopt] final class Reports(counters: Counters, switch: Switch) {
  private val asked = new ConcurrentHashMap[Long, CompletableFuture[JsonNode]]()
  private val ids = new AtomicLong()
  @volatile var planner: PlannerProcess = _
  /** Once it is known. */
  @volatile var conf: DagoptConf = _

  def arrived(id: Long, body: JsonNode): Unit = {
    val waiting = asked.remove(id)
    if (waiting != null) waiting.complete(body)
  }

  def json(): String = {
    val body = fromPlanner(view = false) match {
      case o: ObjectNode => o
      case _ => Wire.mapper.createObjectNode()
    }
    if (conf != null) {
      body.put("mode", conf.mode)
      val keys = body.putObject("conf")
      conf.keys.toSeq.sorted.foreach { case (key, value) => keys.put(key, value) }
    }
    val gate = body.putObject("gate")
    counted.foreach { case (name, value) => gate.put(name, value) }
    gate.put("off_reason", switch.reason)
    body.toString
  }

  /** What the tab shows, or null where the planner does not say it. */
  def view(): JsonNode = fromPlanner(view = true)

  def whyNoView: String =
    if (switch.isOff) s"dagopt is off: ${switch.reason}" else "The planner did not answer; load the page again."

  def counted: Seq[(String, Long)] = counters.toSeq

  private def fromPlanner(view: Boolean): JsonNode = {
    val to = planner
    if (to == null || switch.isOff) null
    else {
      val id = ids.incrementAndGet()
      val answer = new CompletableFuture[JsonNode]()
      asked.put(id, answer)
      try if (to.send(Messages.report(id, view, conf.mode, counted))) answer.get(Reports.WaitS, TimeUnit.SECONDS) else null
      catch { case _: TimeoutException => null }
      finally asked.remove(id)
    }
  }
}

private[dagopt] object Reports {
  private val WaitS = 5L
}
