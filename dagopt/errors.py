"""Every exception dagopt raises on purpose, and what the traceback of any says in a line.

* DagoptError
  - InputError            what the caller handed in is wrong: fix the input
    . ConfError             a configuration value, with its key and what is allowed
      UnknownKeyError       a key or an option that dagopt does not have
    . EventParseError       a line of an event log, with its place
  - InfeasibleError       the input is fine, but no decision satisfies it
  - UnsupportedError      this Spark cannot run dagopt; the application runs without it
  - BridgeError           the JVM side is not there, went away or spoke another protocol

A bug in dagopt itself is an AssertionError or a TypeError, never one of these. The command line
prints the message as one line and exits with ``exit_code``.
"""

from __future__ import annotations


class DagoptError(Exception):
    """Base of everything that dagopt raises on purpose."""

    exit_code: int = 1
    """What the command line exits with when this error ends a command."""


class InputError(DagoptError):
    """What the caller handed in is wrong; the message says what was expected and what came."""

    exit_code = 2


class ConfError(InputError):
    """One configuration value is wrong.

    The message names the key, the value and what is allowed:
    ``spark.dagopt.mode is 'onn': allowed is off, explain, on``. The plugin in the JVM logs the same
    words for a value that reached it unchecked.
    """

    def __init__(self, key: str, value: str, allowed: str) -> None:
        super().__init__(key, value, allowed)
        self.key, self.value, self.allowed = key, value, allowed

    def __str__(self) -> str:
        return f"{self.key} is '{self.value}': allowed is {self.allowed}"


class UnknownKeyError(ConfError):
    """dagopt has no key, or no option, of this name.

    ``spark.dagopt.mod is 'on': dagopt has no such key; did you mean spark.dagopt.mode?`` The plugin
    in the JVM logs the same words, and takes no options.
    """

    def __str__(self) -> str:
        return f"{self.key} is '{self.value}': dagopt has no such key; {self.allowed}"


class EventParseError(InputError):
    """One line of a Spark event log does not say what it must.

    The message names the place as ``source:line`` and the field as a dotted path:
    ``app-7.jsonl:42: Task Metrics.Executor Run Time: expected int, got str``.
    """

    def __init__(self, problem: str, *, source: str, line: int, path: str = "") -> None:
        super().__init__(problem, source, line, path)
        self.problem, self.source, self.line, self.path = problem, source, line, path

    def __str__(self) -> str:
        field = f"{self.path}: " if self.path else ""
        return f"{self.source}:{self.line}: {field}{self.problem}"


class InfeasibleError(DagoptError):
    """The input is fine, but no decision satisfies it."""

    exit_code = 3


class UnsupportedError(DagoptError):
    """This Spark cannot run dagopt, so the application runs as plain Spark."""

    exit_code = 4


class BridgeError(DagoptError):
    """The JVM side of dagopt is not there, went away or spoke another protocol."""

    exit_code = 4


def last_line(told: str) -> str:
    """What a traceback says at its end; of another text its last line."""
    return told.strip().rpartition("\n")[2]
