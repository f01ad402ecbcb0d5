package org.apache.spark.scheduler.dagopt

import java.io.ByteArrayOutputStream
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.core.{JsonFactory, JsonGenerator, JsonParser, JsonProcessingException, JsonToken}
import com.fasterxml.jackson.core.util.JsonGeneratorDelegate
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** What the planner tells the gate; dagopt/model/wire.py is the other end. */
private[dagopt] sealed trait Answer

private[dagopt] object Answer {
  case object Ready extends Answer
  /** Task sets with fewer tasks need not wait for their plan. */
  final case class HoldFrom(numTasks: Int) extends Answer
  final case class Pong(seq: Long) extends Answer
  /** @param order null, or every task of the set, the first to start first */
  final case class Plan(key: SetKey, action: String, tasksPerCore: Int, order: Array[Int], reason: String)
      extends Answer
  final case class Concurrency(key: SetKey, tasksPerCore: Int) extends Answer
  /** @param executor null for any executor */
  final case class Launch(key: SetKey, group: Int, tasks: Array[Int], executor: String, delayMs: Long)
      extends Answer
  final case class Release(key: SetKey, reason: String) extends Answer
  final case class Report(id: Long, body: JsonNode) extends Answer
  /** What there was so far, for Spark's metrics system. */
  final case class Counts(
      decisions: Long, gpuDecisions: Long, gpuShifts: Long, idleHoldS: Double,
      gpuAllocatedS: Double, gpuBusyS: Double, gpuIdleS: Double)
      extends Answer
  /**
   * @param slices partitions of each slice, in their order
   * @param body in answer to a preview, what there is to show; else null
   */
  final case class Form(
      id: Long, slices: Array[Int], before: Boolean, after: Boolean, askAgain: Boolean, measureTasks: Int,
      stepwise: Boolean, maxCpuTasks: Int, body: JsonNode)
      extends Answer with ForStage
  /** Numbers of slices, in the order in which they are to be started. */
  final case class Steps(
      id: Long, takeBack: Array[Int], startGpu: Array[Int], startCpu: Array[Int], shift: Array[Int],
      shiftSlots: Array[Int], end: Boolean)
      extends Answer with ForStage
}

/** What the thread that plans a GPU stage waits for. */
private[dagopt] sealed trait ForStage { def id: Long }

/** A task set: a stage and its attempt. */
private[dagopt] final case class SetKey(stage: Int, attempt: Int) {
  override def toString: String = s"stage $stage.$attempt"
}

/** The planner wrote what the protocol does not know; the message says what. */
private[dagopt] final class Nonsense(message: String) extends Exception(message)

/**
 * The protocol between the JVM and the planner: UTF-8 JSON, one message a line, the protocol's
 * version in each. Messages are streamed in both directions, because a plan or an input table of
 * 100,000 tasks as a tree of objects would cost the driver tens of megabytes. Fields that are not
 * known are skipped, so that a newer planner may add some; a message type that is not known is
 * nonsense, since ignoring it might hold tasks for ever.
 */
private[dagopt] object Wire {
  /** As in dagopt/model/wire_message.py. */
  val Version = 2
  val mapper = new ObjectMapper()
  private val factory: JsonFactory = mapper.getFactory

  /** One line, its newline included. */
  def line(messageType: String, sizeHint: Int = 256)(fields: JsonGenerator => Unit): Array[Byte] = {
    val out = new ByteArrayOutputStream(sizeHint)
    val json = new Utf8(factory.createGenerator(out))
    json.writeStartObject()
    json.writeNumberField("v", Version)
    json.writeStringField("type", messageType)
    fields(json)
    json.writeEndObject()
    json.close()
    out.write('\n')
    out.toByteArray
  }

  /** A user's name may hold half a character, for which there is no UTF-8: it becomes a `?`. */
  private final class Utf8(to: JsonGenerator) extends JsonGeneratorDelegate(to) {
    override def writeString(text: String): Unit =
      super.writeString(if (text == null) null else new String(text.getBytes(UTF_8), UTF_8))
  }

  def key(json: JsonGenerator, key: SetKey): Unit = {
    json.writeNumberField("stage", key.stage)
    json.writeNumberField("attempt", key.attempt)
  }

  def strings(json: JsonGenerator, name: String, values: Iterable[String]): Unit = {
    json.writeArrayFieldStart(name)
    values.foreach(v => json.writeString(v))
    json.writeEndArray()
  }

  def ints(json: JsonGenerator, name: String, values: Array[Int]): Unit = {
    json.writeArrayFieldStart(name)
    var i = 0
    while (i < values.length) { json.writeNumber(values(i)); i += 1 }
    json.writeEndArray()
  }

  /** Bytes are whole numbers on the wire. */
  def bytes(json: JsonGenerator, name: String, values: Array[Double]): Unit = {
    json.writeArrayFieldStart(name)
    var i = 0
    while (i < values.length) { json.writeNumber(math.round(values(i))); i += 1 }
    json.writeEndArray()
  }

  def parse(line: Array[Byte], length: Int): Answer = {
    val fields =
      try read(factory.createParser(line, 0, length))
      catch {
        // Its whole message has several lines, and the log gets one.
        case e: JsonProcessingException => throw new Nonsense(s"not JSON: ${head(line, length)} (${e.getOriginalMessage})")
      }
    fields.whole("v") match {
      case Version =>
      case other => throw new Nonsense(
        s"protocol version $other, expected $Version: dagopt's jar and its Python package are of different builds")
    }
    fields.text("type") match {
      case "ready" => Answer.Ready
      case "hold_from" => Answer.HoldFrom(fields.int("num_tasks"))
      case "pong" => Answer.Pong(fields.whole("seq"))
      case "plan" => Answer.Plan(fields.key, fields.text("action"), fields.perCore,
        fields.intsOr("order", null), fields.textOr("reason", ""))
      case "concurrency" => Answer.Concurrency(fields.key, fields.perCore)
      case "launch" =>
        val delayMs = fields.number("delay_ms")
        if (delayMs < 0) throw new Nonsense(s"delay_ms is $delayMs, expected 0 or more")
        Answer.Launch(fields.key, fields.int("group"), fields.ints("tasks"), fields.textOr("executor", null),
          math.ceil(delayMs).toLong)
      case "release" => Answer.Release(fields.key, fields.textOr("reason", ""))
      case "report" => Answer.Report(fields.whole("id"), fields.body)
      case "counts" => Answer.Counts(fields.whole("decisions"), fields.whole("gpu_decisions"), fields.whole("gpu_shifts"),
        fields.number("idle_hold_s"), fields.number("gpu_allocated_s"), fields.number("gpu_busy_s"), fields.number("gpu_idle_s"))
      case "form" => Answer.Form(fields.whole("id"), fields.ints("slices"), fields.flag("boundary_before"),
        fields.flag("boundary_after"), fields.flag("ask_again"), fields.intOr("measure_tasks", 0),
        fields.flagOr("stepwise", default = false), fields.intOr("max_cpu_tasks", 0), fields.body)
      case "steps" => Answer.Steps(fields.whole("id"), fields.ints("take_back"), fields.ints("start_gpu"),
        fields.ints("start_cpu"), fields.ints("shift"), fields.ints("shift_slots"), fields.flag("end"))
      case other => throw new Nonsense(s"message type '$other'")
    }
  }

  private def head(line: Array[Byte], length: Int): String =
    new String(line, 0, math.min(length, 80), "UTF-8")

  /** The fields of one message. The absence of one that is asked for is nonsense. */
  private final class Fields {
    val scalars = new java.util.HashMap[String, Any]()
    val lists = new java.util.HashMap[String, Array[Int]]()
    var body: JsonNode = _

    private def bad(name: String, expected: String): Nothing =
      throw new Nonsense(s"$name is ${scalars.get(name)}, expected $expected")

    def whole(name: String): Long = scalars.get(name) match {
      case n: Long => n
      case _ => bad(name, "a whole number")
    }
    def int(name: String): Int = whole(name) match {
      case n if n.isValidInt => n.toInt
      case _ => bad(name, "a 32-bit number")
    }
    def intOr(name: String, default: Int): Int = if (scalars.get(name) == null) default else int(name)
    def number(name: String): Double = scalars.get(name) match {
      case n: Long => n.toDouble
      case d: Double if !d.isNaN && !d.isInfinite => d
      case _ => bad(name, "a number")
    }
    def text(name: String): String = scalars.get(name) match {
      case s: String => s
      case _ => bad(name, "a string")
    }
    def textOr(name: String, default: String): String =
      if (scalars.get(name) == null) default else text(name)
    def key: SetKey = SetKey(int("stage"), int("attempt"))
    def perCore: Int = int("tasks_per_core") match {
      case n if n >= 1 => n
      case _ => bad("tasks_per_core", "1 or more")
    }
    def flag(name: String): Boolean = scalars.get(name) match {
      case b: Boolean => b
      case _ => bad(name, "true or false")
    }
    def flagOr(name: String, default: Boolean): Boolean =
      if (scalars.get(name) == null) default else flag(name)
    def intsOr(name: String, default: Array[Int]): Array[Int] = lists.getOrDefault(name, default)
    def ints(name: String): Array[Int] = intsOr(name, null) match {
      case null => bad(name, "a list of whole numbers")
      case values => values
    }
  }

  private val Lists =
    Set("order", "tasks", "slices", "take_back", "start_gpu", "start_cpu", "shift", "shift_slots")

  private def read(json: JsonParser): Fields = {
    val fields = new Fields
    if (json.nextToken() != JsonToken.START_OBJECT) throw new Nonsense("a line that is no object")
    while (json.nextToken() == JsonToken.FIELD_NAME) {
      val name = json.getText
      json.nextToken() match {
        case JsonToken.START_ARRAY if Lists.contains(name) => fields.lists.put(name, intArray(json, name))
        case JsonToken.START_OBJECT if name == "body" => fields.body = mapper.readTree[JsonNode](json)
        case JsonToken.START_ARRAY | JsonToken.START_OBJECT => json.skipChildren()
        case JsonToken.VALUE_NUMBER_INT => fields.scalars.put(name, json.getLongValue)
        case JsonToken.VALUE_NUMBER_FLOAT => fields.scalars.put(name, json.getDoubleValue)
        case JsonToken.VALUE_STRING => fields.scalars.put(name, json.getText)
        case JsonToken.VALUE_TRUE => fields.scalars.put(name, true)
        case JsonToken.VALUE_FALSE => fields.scalars.put(name, false)
        case JsonToken.VALUE_NULL =>
        case token => throw new Nonsense(s"$name is cut off at $token")
      }
    }
    if (json.currentToken() != JsonToken.END_OBJECT || json.nextToken() != null) {
      throw new Nonsense("more, or less, than one object on a line")
    }
    fields
  }

  private def intArray(json: JsonParser, name: String): Array[Int] = {
    val values = new ArrayBuffer[Int]
    while (json.nextToken() != JsonToken.END_ARRAY) {
      if (json.currentToken() != JsonToken.VALUE_NUMBER_INT) {
        throw new Nonsense(s"$name holds ${json.currentToken()}, expected whole numbers")
      }
      values += json.getIntValue
    }
    values.toArray
  }
}
