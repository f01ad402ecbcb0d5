package org.apache.spark.scheduler.dagopt

/** Where Spark's user interface has its servlets from. */
private[dagopt] object Servlets {
  type Request = jakarta.servlet.http.HttpServletRequest
}
