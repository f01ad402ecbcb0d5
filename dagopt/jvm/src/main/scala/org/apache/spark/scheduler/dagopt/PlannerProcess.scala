package org.apache.spark.scheduler.dagopt

import java.io.{File, InputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import org.apache.spark.internal.Logging

/**
 * The planner: a child process that is told events on its stdin and answers on its stdout
 * ([[Wire]]). What it writes to stderr goes to the driver's log.
 *
 * '''Life.''' Started by `DriverPlugin.init`, so that it is up when the first job comes. It ends
 * when its stdin ends, so it does not outlive a driver that was killed, and is killed when the JVM
 * ends by itself.
 *
 * '''Threads.''' Three daemons: one writes, one reads answers, one reads stderr. `send` never
 * blocks: what does not fit into the queue is dropped and counted, because its callers are Spark's
 * listener bus and scheduling threads.
 *
 * @param onAnswer called on the reading thread, in the order of the lines
 * @param onEnd called at most once, unless `close` came first; the text says how it ended
 */
private[dagopt] final class PlannerProcess(
    conf: DagoptConf,
    counters: Counters,
    onAnswer: Answer => Unit,
    onEnd: String => Unit) extends Logging {

  import PlannerProcess._

  private val queue = new LinkedBlockingQueue[Array[Byte]](MaxQueuedMessages)
  private val queuedBytes = new AtomicLong()
  private val ended = new AtomicBoolean()
  @volatile private var process: Process = _
  @volatile private var lastErrorLine = ""
  @volatile private var lineNs = System.nanoTime()

  /** `System.nanoTime` of the last line that came. */
  def lastLineNs: Long = lineNs

  /** Throws what `ProcessBuilder` throws if the command cannot be run. */
  def start(): Unit = {
    val builder = new ProcessBuilder(conf.plannerCommand: _*)
    val environment = builder.environment()
    if (conf.plannerPythonPath.nonEmpty) {
      val inherited = Option(environment.get("PYTHONPATH")).filter(_.nonEmpty)
      environment.put("PYTHONPATH", (Seq(conf.plannerPythonPath) ++ inherited).mkString(File.pathSeparator))
    }
    environment.put("PYTHONUNBUFFERED", "1")
    // A json.py of the user's in the working directory is none of the planner's (from Python 3.11 on).
    environment.put("PYTHONSAFEPATH", "1")
    process = builder.start()
    killAtExit(process)
    daemon("dagopt-planner-out")(write())
    daemon("dagopt-planner-in")(readAnswers())
    daemon("dagopt-planner-err")(readErrors())
  }

  /** Queues a line; false if it was dropped. Never blocks. */
  def send(line: Array[Byte]): Boolean = {
    if (ended.get) false
    else {
      val fits = queuedBytes.get + line.length <= MaxQueuedBytes && queue.offer(line)
      if (fits) queuedBytes.addAndGet(line.length) else counters.messagesDropped.incrementAndGet()
      fits
    }
  }

  /** Ends the process: its stdin is closed, and it is killed if that is not enough. */
  def close(): Unit = {
    ended.set(true)
    queue.clear()
    queue.offer(Stop)
    val child = process
    if (child != null) {
      // The pipe may be full and its writer blocked on it, and close() would then wait for that
      // writer: so the closing has a thread of its own, and the kill does not wait for it.
      daemon("dagopt-planner-close") {
        try {
          daemon("dagopt-planner-eof")(child.getOutputStream.close())
          if (!child.waitFor(CloseWaitMs, TimeUnit.MILLISECONDS)) child.destroyForcibly()
        } catch { case _: InterruptedException => child.destroyForcibly() }
      }
    }
  }

  private def write(): Unit = {
    val out = process.getOutputStream
    var line = queue.take()
    while (line ne Stop) {
      queuedBytes.addAndGet(-line.length)
      out.write(line)
      if (queue.isEmpty) out.flush()
      line = queue.take()
    }
    out.close()
  }

  private def readAnswers(): Unit = {
    val why =
      try {
        val lines = new Lines(process.getInputStream, MaxLineBytes, cuts = false)
        while (lines.next()) {
          lineNs = System.nanoTime()
          if (lines.length > 0) onAnswer(Wire.parse(lines.buffer, lines.length))
        }
        null
      } catch {
        case e: Nonsense => s"the planner wrote something else than an answer: ${e.getMessage}"
        case t: Throwable => s"the planner's answers cannot be read ($t)"
      }
    if (ended.compareAndSet(false, true)) onEnd(if (why == null) howItEnded() else why)
  }

  private def howItEnded(): String = {
    val code =
      if (process.waitFor(CloseWaitMs, TimeUnit.MILLISECONDS)) s"exit code ${process.exitValue()}"
      else "it closed its output"
    // stderr is another pipe: give its reader a moment, since the last line tells the reason.
    Thread.sleep(50)
    val said = if (lastErrorLine.isEmpty) "" else s", last line on stderr: $lastErrorLine"
    s"the planner process ended ($code$said)"
  }

  private def readErrors(): Unit = {
    val lines = new Lines(process.getErrorStream, MaxErrorLineBytes, cuts = true)
    def tell(): Unit = {
      val line = new String(lines.buffer, 0, lines.length, UTF_8)
      if (line.trim.nonEmpty) {
        lastErrorLine = line.take(300)
        logInfo(s"dagopt planner: $line")
      }
    }
    while (lines.next()) tell()
    // The last words of a process that dies need not end in a newline.
    tell()
  }

  /** One that hangs does not see the end of its stdin, and `close` may have no time to wait for it. */
  private def killAtExit(child: Process): Unit = {
    val hook = new Thread("dagopt-planner-kill") { override def run(): Unit = child.destroyForcibly() }
    Runtime.getRuntime.addShutdownHook(hook)
    child.onExit().thenRun(new Runnable {
      def run(): Unit = try Runtime.getRuntime.removeShutdownHook(hook) catch { case _: IllegalStateException => }
    })
  }

  private def daemon(name: String)(body: => Unit): Unit = {
    val thread = new Thread(new Runnable {
      // A broken pipe or a closed stream: the reader of answers sees the end too, and tells it.
      def run(): Unit = try body catch { case _: Throwable => }
    }, name)
    thread.setDaemon(true)
    thread.start()
  }
}

private[dagopt] object PlannerProcess {
  private val MaxQueuedMessages = 20000
  private val MaxQueuedBytes = 128L * 1024 * 1024
  /** A plan that orders a million tasks takes 8 MB. */
  private val MaxLineBytes = 64 * 1024 * 1024
  private val MaxErrorLineBytes = 8 * 1024
  private val CloseWaitMs = 300L
  private val Stop = new Array[Byte](0)

  /**
   * Lines of bytes. One that is longer than `maxBytes` is no way to fill the heap: it is cut to
   * that, or it is nonsense.
   */
  private final class Lines(in: InputStream, maxBytes: Int, cuts: Boolean) {
    private val chunk = new Array[Byte](64 * 1024)
    private var from = 0
    private var until = 0
    var buffer = new Array[Byte](1024)
    var length = 0

    /** Reads the next line into `buffer`; false at the end of the stream, with what is left in it. */
    def next(): Boolean = {
      length = 0
      while (true) {
        if (from == until) {
          from = 0
          until = in.read(chunk)
          if (until < 0) { until = 0; return false }
        }
        var end = from
        while (end < until && chunk(end) != '\n') end += 1
        append(end - from)
        from = math.min(end + 1, until)
        if (end < until) return true
      }
      false
    }

    private def append(found: Int): Unit = {
      if (length + found > maxBytes && !cuts) throw new Nonsense(s"a line of more than $maxBytes bytes")
      val count = math.min(found, maxBytes - length)
      if (length + count > buffer.length) {
        buffer = java.util.Arrays.copyOf(buffer, math.max(length + count, math.min(buffer.length * 2, maxBytes)))
      }
      System.arraycopy(chunk, from, buffer, length, count)
      length += count
    }
  }
}
