package org.apache.spark.scheduler.dagopt

import com.fasterxml.jackson.core.JsonGenerator

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{StageInfo, TaskInfo}

/** What the planner is told, one function a message. Times are epoch milliseconds of the driver. */
private[dagopt] object Messages {

  def hello(appId: String, conf: DagoptConf, whyNotRaise: String): Array[Byte] = Wire.line("hello") { json =>
    json.writeStringField("app_id", appId)
    json.writeStringField("spark", org.apache.spark.SPARK_VERSION)
    json.writeObjectFieldStart("conf")
    conf.keys.toSeq.sorted.foreach { case (key, value) => json.writeStringField(key, value) }
    json.writeEndObject()
    json.writeBooleanField("can_raise", whyNotRaise.isEmpty)
    json.writeStringField("why_not", whyNotRaise)
  }

  def executorAdded(timeMs: Long, executor: String, host: String, cores: Double): Array[Byte] =
    Wire.line("executor_added") { json =>
      json.writeNumberField("time_ms", timeMs)
      json.writeStringField("executor", executor)
      json.writeStringField("host", host)
      json.writeNumberField("cores", cores)
    }

  def executorRemoved(timeMs: Long, executor: String): Array[Byte] = Wire.line("executor_removed") { json =>
    json.writeNumberField("time_ms", timeMs)
    json.writeStringField("executor", executor)
  }

  def taskSet(set: HeldSet, inputs: TaskInputs, plan: String): Array[Byte] =
    Wire.line("task_set", 64 * 1024) { json =>
      val properties = set.manager.taskSet.properties
      val pool = if (properties == null) null else properties.getProperty("spark.scheduler.pool")
      json.writeNumberField("time_ms", set.submittedMs)
      Wire.key(json, set.key)
      json.writeNumberField("num_tasks", set.numTasks)
      json.writeStringField("name", set.stage.name)
      json.writeStringField("plan", plan)
      Wire.strings(json, "scopes", scopes(set.stage))
      // Spark calls it the priority of a task set: the job that submitted it.
      json.writeNumberField("job", set.manager.taskSet.priority)
      json.writeStringField("pool", if (pool == null) "default" else pool)
      json.writeBooleanField("hold", set.holds)
      json.writeBooleanField("can_raise", set.canRaise)
      json.writeBooleanField("preferred", set.manager.tasks.exists(_.preferredLocations.nonEmpty))
      inputs.write(json)
    }

  /** Of every RDD of the stage, by its id: the operation that made it, as in the user interface. */
  private def scopes(stage: StageInfo): Seq[String] =
    stage.rddInfos.sortBy(_.id).take(MaxScopes).map(rdd => rdd.scope.map(_.name).getOrElse(rdd.name)).toSeq

  private val MaxScopes = 1000

  def taskStarted(key: SetKey, info: TaskInfo): Array[Byte] = Wire.line("task_started") { json =>
    json.writeNumberField("time_ms", info.launchTime)
    Wire.key(json, key)
    json.writeNumberField("task", info.index)
    json.writeStringField("executor", info.executorId)
    json.writeBooleanField("speculative", info.speculative)
  }

  /** @param metrics null if the task was lost with its executor */
  def taskEnded(key: SetKey, info: TaskInfo, metrics: TaskMetrics): Array[Byte] = Wire.line("task_ended", 384) { json =>
    json.writeNumberField("time_ms", info.finishTime)
    Wire.key(json, key)
    json.writeNumberField("task", info.index)
    json.writeStringField("executor", info.executorId)
    json.writeBooleanField("ok", info.successful)
    json.writeBooleanField("speculative", info.speculative)
    json.writeNumberField("launch_ms", info.launchTime)
    json.writeNumberField("finish_ms", info.finishTime)
    def number(name: String)(value: TaskMetrics => Long): Unit =
      json.writeNumberField(name, if (metrics == null) 0L else value(metrics))
    number("fetch_wait_ms")(_.shuffleReadMetrics.fetchWaitTime)
    number("cpu_ms")(_.executorCpuTime / 1000000)
    number("gc_ms")(_.jvmGCTime)
    number("read_bytes")(m => m.shuffleReadMetrics.totalBytesRead + m.inputMetrics.bytesRead)
    number("spilled_bytes")(_.diskBytesSpilled)
    number("peak_memory_bytes")(_.peakExecutionMemory)
  }

  def taskSetEnded(key: SetKey, ok: Boolean): Array[Byte] = Wire.line("task_set_ended") { json =>
    json.writeNumberField("time_ms", System.currentTimeMillis())
    Wire.key(json, key)
    json.writeBooleanField("ok", ok)
  }

  def fetch(executor: String, rows: Seq[FetchRow]): Array[Byte] = Wire.line("fetch") { json =>
    json.writeNumberField("time_ms", System.currentTimeMillis())
    json.writeStringField("executor", executor)
    json.writeArrayFieldStart("tasks")
    rows.foreach { row =>
      json.writeStartArray()
      json.writeNumber(row.key.stage)
      json.writeNumber(row.key.attempt)
      json.writeNumber(row.task)
      json.writeNumber(row.bytes)
      json.writeBoolean(row.done)
      json.writeNumber(row.stillMs)
      json.writeEndArray()
    }
    json.writeEndArray()
  }

  /**
   * @param acts whether the answer is waited for and followed
   * @param boundary the setting of the application
   * @param preview whether it is only shown to the user
   */
  def gpuStage(
      id: Long,
      asked: GpuQuestion,
      executors: ExecutorTable,
      defaultCpus: Double,
      acts: Boolean,
      boundary: String,
      preview: Boolean): Array[Byte] =
    Wire.line("gpu_stage", 1024) { json =>
      json.writeNumberField("time_ms", System.currentTimeMillis())
      json.writeNumberField("id", id)
      json.writeStringField("signature", asked.signature)
      json.writeStringField("name", asked.name)
      json.writeNumberField("num_partitions", asked.numPartitions)
      room(json, asked.profile, executors, defaultCpus)
      Wire.strings(json, "above", asked.follows)
      json.writeBooleanField("limited", asked.limited)
      json.writeBooleanField("sliceable", asked.sliceable)
      json.writeStringField("boundary", asked.setting.getOrElse(boundary))
      json.writeBooleanField("must_split", asked.mustSplit)
      json.writeBooleanField("has_cpu_form", asked.hasCpuForm)
      json.writeBooleanField("act", acts)
      json.writeBooleanField("preview", preview)
    }

  /** For how many of its tasks there is room on all executors. */
  private def room(
      json: JsonGenerator, profile: ResourceProfile, executors: ExecutorTable, defaultCpus: Double): Unit = {
    json.writeNumberField("cores", executors.cores)
    // The scarcest of the resources that a task asks for.
    val slots = (profile.taskResources - ResourceProfile.CPUS).values
      .map(r => executors.slots(r.resourceName, r.amount))
    json.writeNumberField("gpus", if (slots.isEmpty) 0 else slots.min)
    json.writeNumberField("cpus_per_task", GpuStages.cpusOf(profile, defaultCpus) / defaultCpus)
    json.writeNumberField("num_hosts", executors.numHosts)
  }

  /** Where the slices of a GPU stage stand. */
  def slices(
      id: Long, states: Seq[SliceState], profile: ResourceProfile, executors: ExecutorTable, defaultCpus: Double)
      : Array[Byte] = Wire.line("slices", 1024) { json =>
    json.writeNumberField("time_ms", System.currentTimeMillis())
    json.writeNumberField("id", id)
    room(json, profile, executors, defaultCpus)
    Wire.ints(json, "sizes", states.map(_.size).toArray)
    Wire.strings(json, "phases", states.map(_.phase))
    Wire.ints(json, "left", states.map(_.left).toArray)
    Wire.ints(json, "slots", states.map(_.slots).toArray)
    Wire.ints(json, "running_ms", states.map(_.runningMs).toArray)
  }

  def cpuOnlyDone(id: Long, slice: Int, cpuOnly: TaskSums): Array[Byte] = Wire.line("cpu_only_done", 256) { json =>
    json.writeNumberField("time_ms", System.currentTimeMillis())
    json.writeNumberField("id", id)
    json.writeNumberField("slice", slice)
    sums(json, "cpu_only", cpuOnly)
  }

  /** @param partial whether the stage still runs */
  def sliceDone(
      id: Long, slice: Int, parts: GpuParts, cpu: TaskSums, gpu: TaskSums, partial: Boolean): Array[Byte] =
    Wire.line("slice_done", 512) { json =>
      json.writeNumberField("time_ms", System.currentTimeMillis())
      json.writeNumberField("id", id)
      json.writeNumberField("slice", slice)
      json.writeBooleanField("boundary_before", parts.before >= 0)
      json.writeBooleanField("boundary_after", parts.after >= 0)
      sums(json, "cpu", cpu)
      sums(json, "gpu", gpu)
      json.writeBooleanField("partial", partial)
    }

  /** The stage behind the GPU stages of an operator has completed. */
  def restDone(id: Long, rest: TaskSums): Array[Byte] = Wire.line("rest_done", 256) { json =>
    json.writeNumberField("time_ms", System.currentTimeMillis())
    json.writeNumberField("id", id)
    sums(json, "rest", rest)
  }

  private def sums(json: JsonGenerator, name: String, of: TaskSums): Unit = {
    json.writeObjectFieldStart(name)
    json.writeNumberField("num_tasks", of.tasks)
    json.writeNumberField("held_ms", of.heldMs)
    json.writeNumberField("run_ms", of.runMs)
    json.writeNumberField("start_ms", of.startMs)
    json.writeNumberField("read_ms", of.readMs)
    json.writeNumberField("write_ms", of.writeNs / 1000000)
    json.writeNumberField("warm_tasks", of.warmTasks)
    json.writeNumberField("warm_run_ms", of.warmRunMs)
    json.writeNumberField("warm_read_ms", of.warmReadMs)
    json.writeNumberField("warm_write_ms", of.warmWriteNs / 1000000)
    json.writeNumberField("bytes_read", of.bytesRead)
    json.writeNumberField("local_bytes_read", of.localBytesRead)
    json.writeNumberField("bytes_written", of.bytesWritten)
    json.writeEndObject()
  }

  /** @param view whether it is for the tab of the user interface */
  def report(id: Long, view: Boolean, mode: String, gate: Seq[(String, Long)]): Array[Byte] = Wire.line("report") { json =>
    json.writeNumberField("id", id)
    json.writeBooleanField("view", view)
    json.writeStringField("mode", mode)
    json.writeObjectFieldStart("gate")
    gate.foreach { case (name, value) => json.writeNumberField(name, value) }
    json.writeEndObject()
  }

  def ping(seq: Long): Array[Byte] = Wire.line("ping")(_.writeNumberField("seq", seq))
}

/** How far a running task has come with reading its input. */
private[dagopt] final case class FetchRow(key: SetKey, task: Int, bytes: Long, done: Boolean, stillMs: Long)
