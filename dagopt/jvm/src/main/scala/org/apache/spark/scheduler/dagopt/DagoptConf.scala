package org.apache.spark.scheduler.dagopt

import java.net.InetAddress
import java.nio.file.{Files, Path, Paths}
import java.util.Locale

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.commons.text.similarity.LevenshteinDistance

import org.apache.spark.SparkConf
import org.apache.spark.network.util.JavaUtils

/**
 * The `spark.dagopt.*` keys that the JVM part reads, checked. `dagopt/spark/conf.py` has the table
 * of all keys; `dagopt.configure`, `dagopt conf` and `dagopt submit` refuse a wrong value before
 * the job starts. A value that was set by hand arrives here unchecked, so it is checked again, in
 * the same words; but nothing here may end the application.
 *
 * @param keys every `spark.dagopt.*` key of the application, for the planner's `hello`
 * @param plannerCommand for tests: the command to run instead of `<python> -m dagopt.planner`
 */
private[dagopt] final case class DagoptConf(
    mode: String,
    groupingEnabled: Boolean,
    boundary: String,
    plannerTimeoutMs: Long,
    plannerCommand: Seq[String],
    plannerPythonPath: String,
    slotsPerCore: Int,
    minInputBytes: Long,
    maxDelayMs: Long,
    probeEnabled: Boolean,
    probeIntervalMs: Long,
    keys: Map[String, String])

private[dagopt] object DagoptConf {
  val Prefix = "spark.dagopt."

  /** Times are cut to a day: in nanoseconds, no sum of them overflows. */
  private val LongestMs = 24L * 3600 * 1000

  /** A wrong value; the message names the key, the value and what is allowed. */
  final class Invalid(message: String) extends IllegalArgumentException(message)

  private val Keys = Seq("mode", "grouping.enabled", "boundary", "slotsPerCore", "minInputBytes", "maxDelay", "profile",
    "network.bandwidth", "disk.bandwidth", "networks", "probe.enabled", "probe.interval", "planner.timeout",
    "planner.python", "planner.pythonpath", "decisionLog", "planner.command")

  def parse(conf: SparkConf): DagoptConf = {
    val r = new Reader(conf)
    r.onlyKnown()
    // Read by the planner only; checked here so that a wrong value is told at the start.
    r.bytes("network.bandwidth", "125m", 1)
    r.bytes("disk.bandwidth", "200m", 1)
    r.networks("networks")
    r.path("profile", "the path of a file that dagopt learn wrote")(Files.isReadable(_))
    r.path("decisionLog", "the path of a file that may be written") { path =>
      if (Files.exists(path)) !Files.isDirectory(path) && Files.isWritable(path)
      else Files.isWritable(Option(path.toAbsolutePath.getParent).getOrElse(path))
    }
    val asked = DagoptConf(
      mode = r.choice("mode", "on", Seq("off", "explain", "on")),
      groupingEnabled = r.bool("grouping.enabled", default = true),
      boundary = r.choice("boundary", "auto", Seq("auto", "always", "never")),
      plannerTimeoutMs = r.ms("planner.timeout", "500ms", 1),
      plannerCommand = command(conf),
      plannerPythonPath = conf.get(Prefix + "planner.pythonpath", ""),
      slotsPerCore = r.int("slotsPerCore", 4, 1, 16),
      minInputBytes = r.bytes("minInputBytes", "16m", 0),
      maxDelayMs = r.ms("maxDelay", "10s", 0),
      probeEnabled = r.bool("probe.enabled", default = true),
      probeIntervalMs = r.ms("probe.interval", "200ms", 200),
      keys = conf.getAll.filter(_._1.startsWith(Prefix)).toMap)
    asked.copy(maxDelayMs = math.min(asked.maxDelayMs, idleTimeoutMs(conf) / 4))
  }

  /** An executor without a task is given up after so long, and a hold must not be the reason. */
  private def idleTimeoutMs(conf: SparkConf): Long =
    if (conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
      1000 * conf.getTimeAsSeconds("spark.dynamicAllocation.executorIdleTimeout", "60s")
    } else Long.MaxValue

  private def command(conf: SparkConf): Seq[String] =
    conf.getOption(Prefix + "planner.command") match {
      case Some(line) => line.trim.split("\\s+").toSeq
      case None => Seq(python(conf), "-m", "dagopt.planner")
    }

  /** The driver's Python. `spark.pyspark.driver.python` may name a notebook server instead. */
  private def python(conf: SparkConf): String =
    conf.getOption(Prefix + "planner.python")
      .orElse(conf.getOption("spark.pyspark.driver.python").filter(isPython))
      .orElse(conf.getOption("spark.pyspark.python"))
      .orElse(sys.env.get("PYSPARK_PYTHON"))
      .filter(_.trim.nonEmpty)
      .getOrElse("python3")

  private def isPython(path: String): Boolean = {
    val name = path.split("[/\\\\]").last.toLowerCase(Locale.ROOT)
    name.startsWith("python") || name.startsWith("pypy")
  }

  private final class Reader(conf: SparkConf) {
    private def bad(key: String, value: String, allowed: String): Nothing =
      throw new Invalid(s"$Prefix$key is '$value': allowed is $allowed")

    /** A key that is misspelt would else be a setting that is not there, without a word. */
    def onlyKnown(): Unit =
      conf.getAll.toSeq.sorted.foreach { case (key, value) =>
        if (key.startsWith(Prefix) && !Keys.contains(key.stripPrefix(Prefix))) {
          throw new Invalid(s"$key is '$value': dagopt has no such key; ${hint(key.stripPrefix(Prefix))}")
        }
      }

    /** The key that was probably meant, or all that there are. */
    private def hint(name: String): String = {
      def edits(key: String): Int =
        LevenshteinDistance.getDefaultInstance.apply(name.toLowerCase(Locale.ROOT), key.toLowerCase(Locale.ROOT))
      val near = Keys.init.minBy(edits)
      if (edits(near) <= near.length / 3) s"did you mean $Prefix$near?"
      else s"its keys: ${Keys.init.mkString(", ")}"
    }

    private def read[A](key: String, default: String, allowed: String)(f: String => Option[A]): A = {
      val value = conf.get(Prefix + key, default).trim
      val parsed = try f(value) catch { case NonFatal(_) => None }
      parsed.getOrElse(bad(key, value, allowed))
    }

    def choice(key: String, default: String, values: Seq[String]): String =
      read(key, default, values.mkString(", "))(v => Some(v).filter(x => values.contains(x)))

    def bool(key: String, default: Boolean): Boolean =
      read(key, default.toString, "true or false") {
        case "true" => Some(true)
        case "false" => Some(false)
        case _ => None
      }

    def int(key: String, default: Int, min: Int, max: Int): Int =
      read(key, default.toString, s"a whole number from $min to $max") { v =>
        Some(v.toInt).filter(n => n >= min && n <= max)
      }

    def ms(key: String, default: String, min: Long): Long =
      read(key, default, s"a time of at least ${min}ms, such as $default") { v =>
        Some(JavaUtils.timeStringAsMs(v)).filter(_ >= min).map(math.min(_, LongestMs))
      }

    def bytes(key: String, default: String, min: Long): Long =
      read(key, default, s"a size of at least $min bytes, such as $default") { v =>
        Some(JavaUtils.byteStringAsBytes(v)).filter(_ >= min)
      }

    /** `rack1=10.0.1.0/24,hostA;rack2=10.0.2.0/24` */
    def networks(key: String): Unit =
      read(key, "", "name=address range or host,...;name=... such as rack1=10.0.1.0/24,hostA") { v =>
        val networkOf = mutable.Map.empty[String, String]
        val good = v.split(";").map(_.trim).filter(_.nonEmpty).forall { rule =>
          rule.split("=", 2).map(_.trim) match {
            case Array(name, members) if name.nonEmpty =>
              val each = members.split(",").map(_.trim).filter(_.nonEmpty)
              each.nonEmpty && each.forall { member =>
                if (member.contains("/")) isRange(member) else networkOf.getOrElseUpdate(member, name) == name
              }
            case _ => false
          }
        }
        if (good) Some(()) else None
      }

    /** `10.0.1.0/24` or `fd00:1::/64` */
    private def isRange(text: String): Boolean = text.split("/", -1) match {
      // Only what looks like an address is looked up: a name would go to the name server.
      case Array(address, prefix) if address.matches("[0-9.]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*") && prefix.matches("[0-9]{1,3}") =>
        prefix.toInt <= 8 * InetAddress.getByName(address).getAddress.length
      case _ => false
    }

    def path(key: String, allowed: String)(isRight: Path => Boolean): Unit =
      conf.getOption(Prefix + key).foreach(_ => read(key, "", allowed)(v => Some(Paths.get(v)).filter(isRight)))
  }
}
