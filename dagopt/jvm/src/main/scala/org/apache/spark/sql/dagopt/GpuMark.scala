package org.apache.spark.sql.dagopt

import scala.util.Try

import org.apache.spark.SparkContext
import org.apache.spark.api.python.PythonFunction
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction

/**
 * What `dagopt.gpu_udf` asked for a Python function.
 *
 * @param hasCpuForm the function runs in a task without a GPU too, on its CPU
 */
private[dagopt] final case class GpuMark(profile: ResourceProfile, hasCpuForm: Boolean) {
  def sameProfile(other: GpuMark): Boolean = profile.id == other.profile.id
}

/**
 * Two ways of marking a function, since Spark makes the UDF of `mapInPandas` and `applyInPandas` out
 * of a plain Python function itself: there only the function's name comes through, which no column
 * bears. The name of a UDF is part of its columns' names, so its function is marked. Both survive
 * whatever rules do with a plan.
 */
private[dagopt] object GpuMark {
  /** Such as `infer@gpu3`, where 3 is the profile's number; with a `c` if there is a CPU form. */
  private val Name = "(.*)@gpu([0-9]+)(c?)".r

  /** What `dagopt.gpu_udf` calls for a UDF. */
  def mark(udf: UserDefinedPythonFunction, profile: ResourceProfile, hasCpuForm: Boolean): UserDefinedPythonFunction =
    udf.copy(func = MarkedFunction(udf.func, GpuMark(profile, hasCpuForm)))

  def of(udf: PythonUDF): Option[GpuMark] = (udf.func, udf.name) match {
    case (MarkedFunction(_, mark), _) => Some(mark)
    case (_, Name(_, id, form)) =>
      val manager = SparkContext.getActive.map(_.resourceProfileManager)
      // A number of another application is no profile here.
      manager.flatMap(m => Try(m.resourceProfileFromId(id.toInt)).toOption).map(GpuMark(_, form.nonEmpty))
    case _ => None
  }

  /** As the user wrote it: nothing of dagopt's goes to executors. */
  def without(udf: PythonUDF): PythonUDF = {
    val function = udf.func match {
      case MarkedFunction(plain, _) => plain
      case plain => plain
    }
    val name = udf.name match {
      case Name(plain, _, _) => plain
      case plain => plain
    }
    udf.copy(name = name, func = function)
  }
}

/** A function that is to run under a profile; in all else it is `plain`. */
private[dagopt] final case class MarkedFunction(plain: PythonFunction, mark: GpuMark) extends PythonFunction {
  override def command = plain.command
  override def envVars = plain.envVars
  override def pythonIncludes = plain.pythonIncludes
  override def pythonExec = plain.pythonExec
  override def pythonVer = plain.pythonVer
  override def broadcastVars = plain.broadcastVars
  override def accumulator = plain.accumulator
}
