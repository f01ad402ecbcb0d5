package org.apache.spark.scheduler.dagopt

import java.io.StringWriter

import com.fasterxml.jackson.core.JsonGenerator

import org.apache.spark.SparkContext
import org.apache.spark.status.TaskIndexNames
import org.apache.spark.status.api.v1.TaskData

/**
 * When and where tasks ran, out of the store that Spark's own user interface reads, and has with
 * that switched off too. What Python calls through py4j; any thread.
 */
object Timeline {

  /**
   * The tasks of the newest stages as JSON, times in epoch ms, running tasks with an end of null.
   *
   * @param most tasks; the oldest are left out and counted
   */
  def json(sc: SparkContext, most: Int): String = {
    val out = new StringWriter()
    val json = Wire.mapper.getFactory.createGenerator(out)
    json.writeStartObject()
    json.writeStringField("app_id", sc.applicationId)
    json.writeStringField("app_name", sc.appName)
    json.writeStringField("spark", org.apache.spark.SPARK_VERSION)
    executors(json, sc)
    stages(json, sc, most)
    json.writeEndObject()
    json.close()
    out.toString
  }

  private def executors(json: JsonGenerator, sc: SparkContext): Unit = {
    json.writeArrayFieldStart("executors")
    sc.statusStore.executorList(true).foreach { executor =>
      json.writeStartObject()
      json.writeStringField("executor", executor.id)
      json.writeNumberField("cores", executor.totalCores)
      json.writeNumberField("gpus", executor.resources.get("gpu").map(_.addresses.length).getOrElse(0))
      json.writeEndObject()
    }
    json.writeEndArray()
  }

  private def stages(json: JsonGenerator, sc: SparkContext, most: Int): Unit = {
    var room = most
    var leftOut = 0
    json.writeArrayFieldStart("stages")
    sc.statusStore.stageList(null).foreach { stage =>
      val started = stage.numActiveTasks + stage.numCompleteTasks + stage.numFailedTasks + stage.numKilledTasks
      val drawn = math.min(started, room)
      leftOut += started - drawn
      room -= drawn
      if (drawn > 0) {
        json.writeStartObject()
        json.writeNumberField("stage", stage.stageId)
        json.writeNumberField("attempt", stage.attemptId)
        json.writeStringField("name", stage.name)
        json.writeNumberField("gpus", gpus(sc, stage.resourceProfileId))
        json.writeArrayFieldStart("tasks")
        tasks(sc, stage.stageId, stage.attemptId, drawn).foreach(task(json, _))
        json.writeEndArray()
        json.writeEndObject()
      }
    }
    json.writeEndArray()
    json.writeNumberField("tasks_left_out", leftOut)
  }

  /** The newest, by an index within the stage: without one the store sorts the tasks of all stages each time. */
  private def tasks(sc: SparkContext, stage: Int, attempt: Int, most: Int): Iterable[TaskData] =
    sc.statusStore.taskList(stage, attempt, 0, most, Some(TaskIndexNames.LAUNCH_TIME), ascending = false).reverse

  /** What a task of the profile holds. */
  private def gpus(sc: SparkContext, profile: Int): Double =
    sc.resourceProfileManager.resourceProfileFromId(profile).taskResources.get("gpu").map(_.amount).getOrElse(0.0)

  private def task(json: JsonGenerator, task: TaskData): Unit = {
    json.writeStartArray()
    json.writeNumber(task.index)
    json.writeString(task.executorId)
    json.writeNumber(task.launchTime.getTime)
    task.duration match {
      case Some(ms) if task.status != "RUNNING" => json.writeNumber(task.launchTime.getTime + ms)
      case _ => json.writeNull()
    }
    json.writeNumber(task.taskMetrics.map(_.shuffleReadMetrics.fetchWaitTime).getOrElse(0L))
    json.writeEndArray()
  }
}
