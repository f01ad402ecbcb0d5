package org.apache.spark.scheduler.dagopt

import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.internal.Logging
import org.apache.spark.util.ShutdownHookManager

/**
 * Whether dagopt still acts in this application. Off is for good: a part that failed once is not
 * trusted again, and the user reads one warning, not one a stage.
 *
 * '''Threads.''' Any. `turnOff` runs the hooks on the caller's thread; they must not block.
 */
private[dagopt] final class Switch extends Logging {
  private val offReason = new AtomicReference[String]()
  /** The application ends: what fails from now on fails because of that, and is nobody's news. */
  @volatile var isStopping: () => Boolean = () => false
  private val hooks = new CopyOnWriteArrayList[Runnable]()

  def isOff: Boolean = offReason.get != null

  /** Why dagopt is off, or "" while it is on. */
  def reason: String = Option(offReason.get).getOrElse("")

  /** What to undo when dagopt goes off; each runs once. */
  def onOff(hook: Runnable): Unit = hooks.add(hook)

  def turnOff(reason: String, cause: Throwable = null): Unit = {
    val why = if (cause == null) reason else s"$reason ($cause)"
    if (offReason.compareAndSet(null, why)) {
      try {
        if (isStopping() || ShutdownHookManager.inShutdown()) logInfo(BuildInfo.offMessage(why))
        else logWarning(BuildInfo.offMessage(why))
        // A stack trace is for us, not for the user: he is told once, in one line.
        if (cause != null) logDebug("dagopt went off because of", cause)
      } catch { case _: Throwable => }
      val all = hooks.iterator()
      while (all.hasNext) try all.next().run() catch { case _: Throwable => }
    }
  }

  /** Off without a word: the application ends, or the user said so. */
  def silence(reason: String): Unit = offReason.compareAndSet(null, reason)

  /** The application has ended: lets go of all that belongs to it. */
  def close(): Unit = {
    isStopping = () => true
    hooks.clear()
  }

  /** Runs `body`; whatever it throws turns dagopt off and goes no further. */
  def guard(what: String)(body: => Unit): Unit =
    try body
    catch {
      case e: InterruptedException =>
        Thread.currentThread().interrupt()
        turnOff(s"$what was interrupted", e)
      case t: Throwable => turnOff(s"$what failed", t)
    }
}
