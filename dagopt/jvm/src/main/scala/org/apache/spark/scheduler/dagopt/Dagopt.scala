package org.apache.spark.scheduler.dagopt

import java.util.concurrent.{CompletableFuture, TimeUnit, TimeoutException}

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

/**
 * Asks the planner for its report: one question at a time, because plans wait in the same thread of the
 * planner, and for a view once in [[Reports.KeepNs]], whoever looks. Any thread.
 */
private[dagopt] final class Reports(counters: Counters, switch: Switch) {
  import Reports._

  @volatile var planner: PlannerProcess = _
  /** Once it is known. */
  @volatile var conf: DagoptConf = _
  private var numAsked = 0L
  /** Not answered yet. */
  private var open: Question = _
  private var lastView: Question = _

  def arrived(id: Long, body: JsonNode): Unit = synchronized {
    if (open != null && open.id == id) close(body)
  }

  /** Dagopt is off: no answer comes any more. */
  def end(): Unit = synchronized {
    lastView = null
    if (open != null) close(null)
  }

  private def close(body: JsonNode): Unit = {
    open.answer.complete(body)
    open = null
  }

  def json(): String = {
    val body = fromPlanner(view = false) match {
      case o: ObjectNode => o.deepCopy()
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

  /** Null without an answer. A report is never older than the call, since it may be of what just ended. */
  private def fromPlanner(view: Boolean): JsonNode = {
    val nowNs = System.nanoTime()
    try {
      var question = ask(view)
      while (question != null && !question.serves(view, nowNs)) {
        question.await(nowNs + WaitNs)
        question = ask(view)
      }
      if (question == null) null else question.await(nowNs + WaitNs)
    } catch {
      case _: TimeoutException => null
      case _: InterruptedException => Thread.currentThread().interrupt(); null
    }
  }

  /** The question to wait for, which may be another's; null where it is vain to wait. */
  private def ask(view: Boolean): Question = synchronized {
    val nowNs = System.nanoTime()
    if (planner == null || switch.isOff) null
    else if (open != null) if (nowNs - open.askedNs < WaitNs) open else null
    else if (view && lastView != null && nowNs - lastView.askedNs < KeepNs) lastView
    else {
      numAsked += 1
      val question = new Question(numAsked, view, nowNs)
      if (planner.send(Messages.report(question.id, view, conf.mode, counted))) {
        open = question
        if (view) lastView = question
        question
      } else null
    }
  }
}

private[dagopt] object Reports {
  private val WaitNs = TimeUnit.SECONDS.toNanos(5)
  /** How long a view is shown to others too. */
  private val KeepNs = TimeUnit.SECONDS.toNanos(1)

  private final class Question(val id: Long, view: Boolean, val askedNs: Long) {
    val answer = new CompletableFuture[JsonNode]()

    /** Whether its answer is one for who came at that time. */
    def serves(forView: Boolean, cameNs: Long): Boolean = view == forView && (view || askedNs - cameNs >= 0)

    def await(untilNs: Long): JsonNode = answer.get(untilNs - System.nanoTime(), TimeUnit.NANOSECONDS)
  }
}
