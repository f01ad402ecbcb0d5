package org.apache.spark.scheduler.dagopt

import java.nio.charset.StandardCharsets
import java.security.MessageDigest

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart

/**
 * Which query a stage belongs to. Under adaptive execution all stages of all queries bear the same
 * name; what tells them apart, in this run and in a later one, is the query's plan. Its number is
 * made of the plan's text as Spark tells it when the query starts, without digits and spaces: those
 * are expression ids. The reader of event logs makes the same number.
 *
 * '''Threads.''' `heard` on the listener bus, `of` on any. The last [[SqlPlans.Most]] queries are kept.
 */
private[dagopt] final class SqlPlans {
  private val numbers = new Bounded[Long, String](SqlPlans.Most)

  def heard(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart =>
      val number = SqlPlans.number(start.physicalPlanDescription)
      synchronized(numbers.put(start.executionId, number))
    case _ =>
  }

  /** The number of the plan that a job with these properties belongs to; empty if none is known. */
  def of(properties: java.util.Properties): String = {
    val id = if (properties == null) null else properties.getProperty(SQLExecution.EXECUTION_ID_KEY)
    val number = if (id == null) null else synchronized(numbers.get(id.toLong))
    if (number == null) "" else number
  }
}

private[dagopt] object SqlPlans {
  private val Most = 1000

  def number(plan: String): String = {
    val text = plan.replaceAll("[0-9\\s]+", "")
    val digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8))
    BigInt(1, digest.take(6)).toString
  }
}
