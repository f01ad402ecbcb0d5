package org.apache.spark.sql.dagopt

import scala.collection.mutable

import org.apache.spark.NarrowDependency
import org.apache.spark.internal.config.RESOURCE_PROFILE_MERGE_CONFLICTS
import org.apache.spark.rdd.RDD
import org.apache.spark.resource.ResourceProfile

/** The resource profiles that meet in a stage. */
private[dagopt] object Profiles {

  /** Whether rows are computed under another profile in the stage that reads them, which Spark refuses. */
  def conflict(rows: RDD[_], profile: ResourceProfile): Boolean =
    !rows.conf.get(RESOURCE_PROFILE_MERGE_CONFLICTS) && of(rows).exists(_.id != profile.id)

  private def of(rows: RDD[_]): Seq[ResourceProfile] = {
    val seen = mutable.Set.empty[Int]
    val found = mutable.Buffer.empty[ResourceProfile]
    val open = mutable.Stack[RDD[_]](rows)
    while (open.nonEmpty) {
      val rdd = open.pop()
      if (seen.add(rdd.id)) {
        Option(rdd.getResourceProfile()).filter(_.id != ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID).foreach(found += _)
        rdd.dependencies.foreach {
          case narrow: NarrowDependency[_] => open.push(narrow.rdd)
          case _ =>
        }
      }
    }
    found.toSeq
  }
}
