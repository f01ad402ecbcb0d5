"""The command line of spark-submit, read far enough to add dagopt's settings to it.

What the user wrote stays, in its order; settings are added right before the application. A value
that spark-submit takes from an option of its own (``--jars``) wins over ``--conf``, so where
dagopt adds to such a value, the option itself is changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dagopt.errors import InputError
from dagopt.spark.conf import check_driver_files
from dagopt.spark.home import SparkHome
from dagopt.spark.launch import launch_conf
from dagopt.spark.properties import read_properties

#: Options of spark-submit without a value.
_SWITCHES = frozenset(
    {"--help", "-h", "--supervise", "--usage-error", "--verbose", "-v", "--version"}
    | {"--load-spark-defaults"}
)

#: Options that make spark-submit do something else than start an application.
_OTHER_USE = frozenset({"--help", "-h", "--version", "--kill", "--status", "--usage-error"})

#: Options that set what a configuration key sets too, and win over it.
_KEY_OF_OPTION = {
    "--master": "spark.master",
    "--deploy-mode": "spark.submit.deployMode",
    "--jars": "spark.jars",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
    "--num-executors": "spark.executor.instances",
    "--remote": "spark.remote",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitLine:
    """The arguments of one spark-submit, taken apart."""

    options: tuple[tuple[str, str | None], ...]
    """Spark's options with their values, None for a switch, in the order given."""

    application: tuple[str, ...]
    """The application's file and its own arguments; empty for ``--version`` and the like."""

    @property
    def starts_application(self) -> bool:
        """Whether Spark would run an application, and not print help or ask for a status."""
        used = {name for name, _ in self.options}
        return bool(self.application) and not used & _OTHER_USE

    def conf(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """The configuration that spark-submit would make of it.

        Args:
            defaults: of spark-defaults.conf, which a ``--properties-file`` replaces unless
                ``--load-spark-defaults`` is given.

        Raises:
            InputError: the properties file cannot be read, or a ``--conf`` is not ``key=value``.
        """
        files = [value for name, value in self.options if name == "--properties-file" and value]
        conf = (
            dict(defaults) if not files or ("--load-spark-defaults", None) in self.options else {}
        )
        if files:
            conf.update(read_properties(Path(files[-1])))
        for name, value in self.options:
            if name in {"--conf", "-c"} and value is not None:
                key, equals, text = value.partition("=")
                if not equals:
                    raise InputError(f"--conf: expected key=value, got {value!r}")
                conf[key.strip()] = text.strip()
        for name, value in self.options:
            if name in _KEY_OF_OPTION and value is not None:
                conf[_KEY_OF_OPTION[name]] = value
        return conf

    def with_conf(self, added: Mapping[str, str]) -> list[str]:
        """The arguments again, with these settings in force."""
        left = dict(added)
        arguments: list[str] = []
        for name, value in self.options:
            text = left.pop(_KEY_OF_OPTION[name], value) if name in _KEY_OF_OPTION else value
            arguments += [name] if text is None else [name, text]
        for key, text in left.items():
            arguments += ["--conf", f"{key}={text}"]
        return [*arguments, *self.application]


def parse_submit(arguments: Sequence[str]) -> SubmitLine:
    """Take spark-submit's arguments apart.

    Raises:
        InputError: an option lacks its value.
    """
    options: list[tuple[str, str | None]] = []
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-":
        name, equals, value = arguments[at].partition("=")
        at += 1
        if name == "--" and not equals:
            break
        if name in _SWITCHES:
            options.append((name, None))
        elif equals and name.startswith("--"):
            options.append((name, value))
        elif at < len(arguments):
            options.append((arguments[at - 1], arguments[at]))
            at += 1
        else:
            raise InputError(f"{name}: a value is missing behind it")
    return SubmitLine(options=tuple(options), application=tuple(arguments[at:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A command to run in place of this process."""

    command: tuple[str, ...]
    """``spark-submit`` with its arguments."""

    notes: tuple[str, ...]
    """What the user should know before it starts."""


def plan_submission(
    arguments: Sequence[str],
    *,
    spark: SparkHome,
    environment: Mapping[str, str],
    options: Mapping[str, object],
    cores: int | None,
) -> Submission:
    """The spark-submit command for the user's arguments, with dagopt switched on.

    Raises:
        InputError: an argument is wrong; as a ConfError where it is a setting of dagopt.
    """
    line = parse_submit(arguments)
    submit = str(spark.submit)
    if not line.starts_application:
        return Submission(command=(submit, *line.with_conf({})), notes=())
    base = line.conf(spark.defaults(environment))
    if "spark.remote" in base:
        return Submission(
            command=(submit, *line.with_conf({})),
            notes=("Spark Connect: dagopt's settings belong on the server, nothing is set here",),
        )
    base.setdefault("spark.master", environment.get("MASTER", ""))
    launch = launch_conf(spark.version(), cores=cores, options=options, base=base)
    if base.get("spark.submit.deployMode") != "cluster":
        check_driver_files({**base, **launch.conf})
    return Submission(command=(submit, *line.with_conf(launch.conf)), notes=launch.notes)


def run_instead(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become that command: its exit code and the signals it gets are its own.

    Raises:
        InputError: it cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(command[0], list(command), dict(environment))  # noqa: S606  no shell is the point
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be started: {error}") from error
