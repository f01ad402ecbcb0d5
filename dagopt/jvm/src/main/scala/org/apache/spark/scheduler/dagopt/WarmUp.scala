package org.apache.spark.scheduler.dagopt

import java.io.File
import java.util.jar.JarFile

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.PendingTasksByLocality

/**
 * Loads dagopt's classes before the first task set comes: loaded one by one on Spark's scheduling
 * thread they would take it tens of milliseconds. A class that does not fit this Spark after all
 * fails here too, before anything is held.
 */
private[dagopt] object WarmUp {
  private val Rounds = 50
  private val Tasks = 2000

  def run(): Unit = {
    val here = getClass.getProtectionDomain.getCodeSource
    if (here != null) loadAll(new File(here.getLocation.toURI))
    (1 to Rounds).foreach { _ =>
      val pending = new PendingTasksByLocality
      (0 until Tasks).foreach { task => pending.noPrefs += task; pending.all += task }
      PendingLists.take(pending).putBack(pending, _ => true, null)
    }
  }

  private def loadAll(jar: File): Unit =
    if (jar.isFile) {
      val file = new JarFile(jar)
      try file.entries.asScala.map(_.getName).filter(_.endsWith(".class")).foreach { name =>
        Class.forName(name.stripSuffix(".class").replace('/', '.'), true, getClass.getClassLoader)
      } finally file.close()
    }
}
