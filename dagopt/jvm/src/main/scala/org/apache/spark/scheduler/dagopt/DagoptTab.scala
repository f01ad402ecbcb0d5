package org.apache.spark.scheduler.dagopt

import scala.jdk.CollectionConverters._
import scala.xml.Node

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

/**
 * The tab `dagopt` of Spark's live user interface. It shows the lines and tables that the planner
 * answers with; scala.xml escapes them.
 */
private[dagopt] final class DagoptTab(ui: SparkUI, reports: Reports) extends SparkUITab(ui, "dagopt") {
  override val name = "dagopt"
  attachPage(new DagoptPage(this, reports))
}

private[dagopt] object DagoptTab extends Logging {
  /** A user interface that is off, or is another than Spark's, costs the tab and nothing else. */
  def attach(sc: SparkContext, reports: Reports): Unit =
    try sc.ui.foreach(ui => ui.attachTab(new DagoptTab(ui, reports)))
    catch { case t: Throwable => logInfo(s"dagopt has no tab in the user interface: $t") }
}

/** Called on threads of the web server. */
private[dagopt] final class DagoptPage(tab: DagoptTab, reports: Reports) extends WebUIPage("") {

  override def render(request: Servlets.Request): Seq[Node] =
    UIUtils.headerSparkPage(request, "dagopt", content, tab)

  private def content: Seq[Node] =
    try reports.view() match {
      case null => <p>{reports.whyNoView}</p> ++ table(Seq("counter", "value"), counters)
      case view =>
        each(view, "lines").map(line => <p>{line.asText}</p>) ++ each(view, "tables").flatMap(shown)
    } catch { case t: Throwable => <p>{s"dagopt cannot show what it does: $t"}</p> }

  private def counters: Seq[Seq[String]] = reports.counted.map { case (name, value) => Seq(name, value.toString) }

  private def shown(of: JsonNode): Seq[Node] =
    <h4>{of.path("heading").asText}</h4> ++
      table(texts(of.path("columns")), each(of, "rows").map(texts)) ++
      <p>{of.path("note").asText}</p>

  private def table(columns: Seq[String], rows: Seq[Seq[String]]): Seq[Node] =
    if (rows.isEmpty) Nil
    else {
      <table class="table table-bordered table-sm table-striped">
        <thead><tr>{columns.map(column => <th>{column}</th>)}</tr></thead>
        <tbody>{rows.map(row => <tr>{row.map(cell => <td>{cell}</td>)}</tr>)}</tbody>
      </table>
    }

  private def texts(of: JsonNode): Seq[String] = of.elements.asScala.map(_.asText).toList
  private def each(of: JsonNode, name: String): Seq[JsonNode] = of.path(name).elements.asScala.toList
}
