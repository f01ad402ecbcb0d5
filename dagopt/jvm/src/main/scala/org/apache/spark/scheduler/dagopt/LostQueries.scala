package org.apache.spark.scheduler.dagopt

import java.util.Properties

import org.apache.spark.sql.execution.SQLExecution

/** SQL executions that lost a job other than that of a slice, which throws where it was started. Any thread. */
private[spark] final class LostQueries {
  private val byJob = new Bounded[Int, String](LostQueries.Most)
  private val lost = new Bounded[String, String](LostQueries.Most)

  def started(job: Int, properties: Properties): Unit =
    if (properties != null && properties.getProperty(LostQueries.OfSlice) == null) {
      val query = properties.getProperty(SQLExecution.EXECUTION_ID_KEY)
      if (query != null) synchronized(byJob.put(job, query))
    }

  def ended(job: Int, well: Boolean): Unit = synchronized {
    val query = byJob.remove(job)
    if (query != null && !well) lost.put(query, query)
  }

  def has(query: String): Boolean = query != null && synchronized(lost.containsKey(query))
}

private[spark] object LostQueries {
  /** A property of jobs that compute a slice. */
  val OfSlice = "dagopt.slice"
  private val Most = 1000
}
