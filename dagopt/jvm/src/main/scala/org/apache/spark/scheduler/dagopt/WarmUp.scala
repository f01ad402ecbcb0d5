package org.apache.spark.scheduler.dagopt

import java.io.File
import java.util.jar.JarFile

import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{MapStatus, PendingTasksByLocality, TaskSchedulerImpl}

/**
 * Does on the gate's thread, to no effect, what will be done on Spark's scheduling thread: classes
 * that are loaded there one by one, and code that is interpreted there, would take it tens of
 * milliseconds. A class that does not fit this Spark after all fails here too, before anything is
 * held.
 */
private[dagopt] object WarmUp {
  private val Rounds = 50
  private val Tasks = 2000
  private val Looks = 300
  private val Maps = 16

  def run(): Unit = {
    val here = getClass.getProtectionDomain.getCodeSource
    if (here != null) loadAll(new File(here.getLocation.toURI))
    (1 to Rounds).foreach { _ =>
      val pending = new PendingTasksByLocality
      (0 until Tasks).foreach { task => pending.noPrefs += task; pending.all += task }
      PendingLists.take(pending).putBack(pending, _ => true, null)
    }
    val statuses = Array.tabulate(Maps)(map => MapStatus(null, Array.fill(Maps)(1000L), map))
    (1 to Looks).foreach(_ => MapOutputs.estimate(statuses, Maps, Maps))
  }

  /** Looks at the RDDs of a stage as the gate does, which only reads. */
  def look(last: RDD[_], scheduler: TaskSchedulerImpl): Unit = (1 to Looks).foreach { _ =>
    val lineage = Lineage.of(last)
    lineage.reads && lineage.isSmall(scheduler.mapOutputTracker, 2)
    lineage.estimatedShuffleBytes(scheduler.mapOutputTracker)
  }

  private def loadAll(jar: File): Unit =
    if (jar.isFile) {
      val file = new JarFile(jar)
      try file.entries.asScala.map(_.getName).filter(_.endsWith(".class")).foreach { name =>
        Class.forName(name.stripSuffix(".class").replace('/', '.'), true, getClass.getClassLoader)
      } finally file.close()
    }
}
