"""What one launch must set to switch dagopt on.

:func:`launch_conf` gives the complete configuration for one Spark version and cluster. ``dagopt
conf``, ``dagopt submit`` and ``dagopt.configure`` differ only in how they hand it to Spark.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dagopt.errors import InputError, UnsupportedError
from dagopt.spark.concurrency import raise_slots, takes_whole_cpus
from dagopt.spark.conf import PREFIX, check_conf, option_values, value_of
from dagopt.spark.jar import JVM_DIR, jar_path, minor_of

PLUGIN = "org.apache.spark.scheduler.dagopt.DagoptPlugin"
EXTENSION = "org.apache.spark.sql.dagopt.DagoptExtensions"

#: Spark lines that a jar can be built for, oldest first.
SPARK_LINES = ("3.5", "4.0", "4.1", "4.2", "4.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConf:
    """What one launch must set, beside what the user set."""

    conf: Mapping[str, str]
    """Keys and values in the order to print them; empty where dagopt does not work."""

    notes: tuple[str, ...]
    """What the user should know: what concurrency costs here, or why something is not set."""


def submit_conf(
    spark_version: str,
    *,
    cores: int | None = None,
    master: str | None = None,
    deploy_mode: str | None = None,
    options: Mapping[str, object] | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every setting that switches dagopt on; :func:`launch_conf` without its notes."""
    launch = launch_conf(
        spark_version,
        cores=cores,
        master=master,
        deploy_mode=deploy_mode,
        options=options,
        base=base,
    )
    return dict(launch.conf)


def launch_conf(
    spark_version: str,
    *,
    cores: int | None = None,
    master: str | None = None,
    deploy_mode: str | None = None,
    options: Mapping[str, object] | None = None,
    base: Mapping[str, str] | None = None,
) -> LaunchConf:
    """Every setting that switches dagopt on for one application.

    Args:
        spark_version: of the Spark that will run, such as ``4.3.0``.
        cores: physical cores of an executor, >= 1. Needed before Spark 4.3 on YARN and
            standalone to run more tasks than cores; see :mod:`dagopt.spark.concurrency`.
        master: Spark's master URL; default: ``spark.master`` of ``base``.
        deploy_mode: ``client`` or ``cluster``; default: that of ``base``, else ``client``.
        options: dagopt's own keys, as :func:`option_values` takes them.
        base: what the user set already. Its values are kept: lists such as ``spark.plugins``
            get dagopt's part appended.

    Raises:
        InputError: an option or a key of dagopt in ``base`` is wrong, or ``cores`` is.
    """
    if cores is not None and cores < 1:
        raise InputError(f"cores: expected an integer >= 1, got {cores}")
    have = dict(base or {})
    check_conf(have)
    conf = option_values(options or {})
    have.update(conf)
    if value_of(have, PREFIX + "mode") == "off":
        return LaunchConf(conf=conf, notes=("spark.dagopt.mode is off: nothing else is set",))
    try:
        jar = find_jar(spark_version)
    except UnsupportedError as error:
        return LaunchConf(conf={}, notes=(str(error),))

    cluster_mode = (deploy_mode or have.get("spark.submit.deployMode", "client")) == "cluster"
    on_master = master or have.get("spark.master", "")
    conf = {
        **_plugin_conf(jar, have, on_master, cluster_mode=cluster_mode),
        **_extension_conf(have),
        **conf,
    }
    notes: tuple[str, ...] = ()
    if not cluster_mode:
        conf.update(_planner_conf(have))
    elif PREFIX + "planner.python" not in have:
        notes = ("cluster mode: the driver's Python there must have dagopt installed",)
    if (
        takes_whole_cpus(spark_version)
        and value_of(have, PREFIX + "mode") == "on"
        and value_of(have, PREFIX + "grouping.enabled") == "true"
    ):
        slots_per_core = int(value_of(have, PREFIX + "slotsPerCore") or 1)
        # A launcher of dagopt's that ran before this one did it already.
        by_hand = PLUGIN in _items(have.get("spark.plugins")) and "spark.task.cpus" in have
        if slots_per_core > 1 and not by_hand:
            raised = raise_slots(have, master=on_master, slots_per_core=slots_per_core, cores=cores)
            conf.update(raised.conf)
            notes += (raised.note,)
    return LaunchConf(conf=conf, notes=notes)


def find_jar(spark_version: str) -> Path:
    """The jar for that Spark.

    Raises:
        UnsupportedError: there is none, in one line that says what to do.
    """
    line = minor_of(spark_version)
    if line not in SPARK_LINES:
        raise UnsupportedError(
            f"Spark {spark_version} runs without dagopt, which works with Spark {SPARK_LINES[0]} "
            f"to {SPARK_LINES[-1]}"
        )
    jar = jar_path(spark_version)
    if not jar.is_file():
        raise UnsupportedError(
            f"Spark {spark_version} runs without dagopt: {jar.name} is missing; {_how_to_build(line)}"
        )
    return jar


def _how_to_build(line: str) -> str:
    """How the jar of a Spark line is made here; an installed wheel has no sources."""
    if not (JVM_DIR / "src").is_dir():
        return f"install a wheel that 'make wheel MATRIX={line}' built in a checkout"
    return (
        f"'make jars MATRIX={line}' builds it, and 'python -m dagopt.spark.jar --spark-home DIR' "
        f"does for a Spark {line} in DIR"
    )


def _plugin_conf(
    jar: Path, have: Mapping[str, str], master: str, *, cluster_mode: bool
) -> dict[str, str]:
    """Where Spark finds the plugin; the user's own plugins and jars stay, in front."""
    plugins = _items(have.get("spark.plugins"))
    conf = {"spark.plugins": ",".join([*plugins, *([] if PLUGIN in plugins else [PLUGIN])])}
    jars = _items(have.get("spark.jars"))
    if any(_file_name(name) == jar.name for name in jars):
        # The user's own copy is the one to use, such as local:///opt/... of an image.
        return conf
    conf["spark.jars"] = ",".join([*filter(_is_not_ours, jars), str(jar)])
    if not cluster_mode:
        on_driver = str(jar)
    elif master == "yarn":
        # The jars of spark.jars lie under their own names where the driver starts.
        on_driver = jar.name
    else:
        # Kubernetes: the driver's own spark-submit fetches spark.jars, no path is known before.
        return conf
    path = [part for part in have.get("spark.driver.extraClassPath", "").split(":") if part]
    conf["spark.driver.extraClassPath"] = ":".join([on_driver, *filter(_is_not_ours, path)])
    return conf


def why_no_extension(extensions: str | None) -> str:
    """What is missing in this value of ``spark.sql.extensions``, and what sets it; empty if nothing is."""
    if EXTENSION in _items(extensions):
        return ""
    return (
        f"spark.sql.extensions does not name {EXTENSION};"
        " dagopt.configure(builder), dagopt submit and dagopt conf set it"
    )


def _extension_conf(have: Mapping[str, str]) -> dict[str, str]:
    """The planner strategy for GPU operators, behind the user's own extensions.

    Also where no boundary may be put: it gives functions their profiles, see ``dagopt.gpu_udf``, and where a hint asks.
    """
    extensions = _items(have.get("spark.sql.extensions"))
    ours = [] if EXTENSION in extensions else [EXTENSION]
    return {"spark.sql.extensions": ",".join([*extensions, *ours])}


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _is_not_ours(path: str) -> bool:
    """Whether a jar is not one of dagopt's: that of another Spark line would turn dagopt off."""
    return re.fullmatch(r"dagopt-spark-[0-9.]+\.jar", _file_name(path)) is None


def _planner_conf(have: Mapping[str, str]) -> dict[str, str]:
    """The planner's Python: the one that runs this, since it has dagopt and what it needs."""
    if PREFIX + "planner.python" in have:
        return {}
    conf = {PREFIX + "planner.python": sys.executable}
    home = Path(__file__).resolve().parents[2]
    # An installed package is found anyway; naming site-packages would put it before Python's own.
    if PREFIX + "planner.pythonpath" not in have and str(home) not in {
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    }:
        conf[PREFIX + "planner.pythonpath"] = str(home)
    return conf


def _items(text: str | None) -> list[str]:
    return [item for item in (part.strip() for part in (text or "").split(",")) if item]
