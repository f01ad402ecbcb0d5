package org.apache.spark.scheduler.dagopt

import java.util.Properties

import org.slf4j.{Logger, LoggerFactory}

/**
 * Which Spark this jar was compiled for, as `dagopt/spark/jar.py` wrote it into the jar.
 *
 * It is asked before any other class of dagopt is loaded: members of Spark move between minor
 * versions, so every other class may fail to link on a Spark that the jar was not built for.
 * For the same reason it does not use Spark's own `Logging`, which moved in 4.0.
 */
private[spark] object BuildInfo {
  private val path = "META-INF/dagopt.properties"
  private val log: Logger = LoggerFactory.getLogger("org.apache.spark.scheduler.dagopt.DagoptPlugin")

  private lazy val properties: Properties = {
    val found = new Properties()
    val in = getClass.getClassLoader.getResourceAsStream(path)
    if (in != null) try found.load(in) finally in.close()
    found
  }

  /** The Spark minor version that the jar was compiled against, such as "4.3"; "" if unknown. */
  def sparkMinor: String = properties.getProperty("spark.minor", "")

  /** The version of dagopt, such as "0.1.0"; "" if unknown. */
  def version: String = properties.getProperty("dagopt.version", "")

  def minorOf(version: String): String = version.split('.').take(2).mkString(".")

  /** Why the jar must not run here, or null if it may. Never throws. */
  def refusal(): String =
    try {
      val running = org.apache.spark.SPARK_VERSION
      if (minorOf(running) == sparkMinor) null
      else s"this dagopt jar was built for Spark $sparkMinor and this is Spark $running"
    } catch {
      case t: Throwable => s"the version of Spark could not be read ($t)"
    }

  /** The one warning of a plugin that does not start. Never throws. */
  def warnOff(reason: String): Unit =
    try log.warn(offMessage(reason)) catch { case _: Throwable => }

  def offMessage(reason: String): String =
    s"dagopt is off for this application: $reason. Spark runs as it would without it."
}
