"""An emulated Spark cluster on one machine: hosts in network namespaces, links of a given rate.

The network is that of :mod:`jobs.emulated_network`. A real Spark standalone master runs on the
bridge's address, where the driver runs too, and a real worker in every namespace.

Emulated: addresses, link rates in both directions, sockets, shuffles, the external shuffle
service. Optionally each host is pinned to one physical core. Not emulated: disks, memory, link
latency, and more hosts than physical cores unless the cores are a lock (see ``jobs.overlap.cases``).

Leaving the context removes every namespace, cable, bridge and process that it made, also after
SIGINT, SIGTERM and SIGHUP. After SIGKILL the processes die with their parent, and what is left
of the network goes when the next cluster starts: names carry the process id, and those of dead
processes are removed. Needs root and Debian's iproute2.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.emulated_network import ClusterError, EmulatedNetwork, check_machine, remove_leftovers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

START_S = 180.0
"""Longest wait for a master or a worker to come up."""

STOP_S = 10.0
"""Longest wait for a process to end by itself before it is killed."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """What one emulated host offers."""

    name: str
    """Short and unique in the cluster; Spark sees the host's address."""

    slots: int = 4
    """Cores that the worker offers to Spark, whatever is under them."""

    memory_mb: int = 4096
    """Memory that the worker offers to Spark, in MiB; not enforced."""

    physical_core: int | None = None
    """Physical core to which everything on this host is pinned; None: not pinned."""

    shuffle_service: bool = False
    """Whether the worker serves map outputs of executors that have gone."""


class EmulatedCluster:
    """Context manager of one emulated cluster; see the module's docstring.

    Args:
        hosts: the hosts, at least one, at most 200.
        link_mbit: rate of every host's link, each direction, in Mbit/s.
        work_dir: folder for logs, executor folders and shuffle files; made if missing.
        spark_home: a Spark distribution; default the installed pyspark.
        python: the Python of the executors' Python workers.
        subnet: a /24 of the emulated hosts; default a free one of 198.18.0.0/15.
    """

    def __init__(
        self,
        hosts: Sequence[HostSpec],
        *,
        link_mbit: float,
        work_dir: Path,
        spark_home: Path | None = None,
        python: str | None = None,
        subnet: str | None = None,
    ) -> None:
        names = [host.name for host in hosts]
        self.network = EmulatedNetwork(names, link_mbit=link_mbit, subnet=subnet)
        self.hosts = dict(zip(names, hosts, strict=True))
        self.work_dir = work_dir.resolve()
        self.spark_home = spark_home or default_spark_home()
        self._python = python
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._old_handlers: dict[int, signal._HANDLER] = {}

    # Public functions

    def __enter__(self) -> EmulatedCluster:  # noqa: PYI034  Self needs Python 3.11
        check_machine()
        remove_leftovers()
        self._catch_signals()
        try:
            self.network.create()
            self._start_master()
            for name in self.hosts:
                self.start_worker(name, wait=False)
            for name in self.hosts:
                self._await_log(f"worker-{name}", r"Successfully registered with master")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def driver_address(self) -> str:
        """Address of the bridge: the driver binds here (``spark.driver.bindAddress``)."""
        return self.network.gateway

    @property
    def master_url(self) -> str:
        """The ``spark.master`` of applications on this cluster."""
        return f"spark://{self.driver_address}:7077"

    def address(self, name: str) -> str:
        """Address of a host; Spark shows it as the host's name."""
        return self.network.address(name)

    def environment(self) -> dict[str, str]:
        """Environment of a driver process on this cluster."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        env["SPARK_HOME"] = str(self.spark_home)
        env["SPARK_CONF_DIR"] = str(self._sub_dir("conf"))
        env["SPARK_LOCAL_DIRS"] = str(self._sub_dir("local"))
        env["SPARK_LOCAL_IP"] = self.driver_address
        if self._python:
            env["PYSPARK_PYTHON"] = self._python
        return env

    def start_worker(self, name: str, *, wait: bool = True) -> None:
        """Start the worker of a host; ``wait`` until the master knows it."""
        host = self.hosts[name]
        pin = [] if host.physical_core is None else ["taskset", "-c", str(host.physical_core)]
        properties = self._sub_dir("conf") / f"{name}.properties"
        service = str(host.shuffle_service).lower()
        properties.write_text(f"spark.shuffle.service.enabled {service}\n", encoding="utf-8")
        command = [
            *("ip", "netns", "exec", self.network.namespace(name), *pin),
            str(self.spark_home / "bin" / "spark-class"),
            "org.apache.spark.deploy.worker.Worker",
            *("--host", self.address(name), "--webui-port", "0"),
            *("--cores", str(host.slots), "--memory", f"{host.memory_mb}m"),
            *("--work-dir", str(self._sub_dir(f"work-{name}"))),
            *("--properties-file", str(properties), self.master_url),
        ]
        env = self.environment() | {
            "SPARK_LOCAL_IP": self.address(name),
            "SPARK_LOCAL_HOSTNAME": self.address(name),
            "SPARK_LOCAL_DIRS": str(self._sub_dir(f"local-{name}")),
        }
        self._start(f"worker-{name}", command, env)
        if wait:
            self._await_log(f"worker-{name}", r"Successfully registered with master")

    def stop_worker(self, name: str) -> None:
        """Stop the worker of a host and the executors on it."""
        process = self._processes.pop(f"worker-{name}", None)
        if process is not None:
            _end_groups([process])

    def close(self) -> None:
        """Remove everything; signals that arrive meanwhile wait until it is done."""
        caught = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, caught)
        try:
            _end_groups(list(self._processes.values()))
            self._processes.clear()
            self.network.remove()
            self._restore_signals()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    # Processes

    def _start_master(self) -> None:
        command = [
            str(self.spark_home / "bin" / "spark-class"),
            "org.apache.spark.deploy.master.Master",
            *("--host", self.driver_address, "--port", "7077", "--webui-port", "0"),
        ]
        env = self.environment() | {"SPARK_LOCAL_HOSTNAME": self.driver_address}
        self._start("master", command, env)
        self._await_log("master", r"I have been elected leader")

    def _start(self, role: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # a daemon here is short-lived
        full_env = {**env, "SPARK_DAEMON_MEMORY": "384m", "SPARK_DAEMON_JAVA_OPTS": java}
        with self._log(role).open("wb") as log:
            self._processes[role] = subprocess.Popen(
                command,
                env=full_env,
                cwd=self.work_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  no threads here
            )
        hand_on_priority(self._processes[role].pid)

    def _await_log(self, role: str, pattern: str) -> None:
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            text = self._log(role).read_text(encoding="utf-8", errors="replace")
            if re.search(pattern, text):
                return
            code = self._processes[role].poll()
            if code is not None:
                raise ClusterError(f"{role} ended with {code}: {text[-600:].strip()}")
            time.sleep(0.05)
        raise ClusterError(f"{role} did not come up in {START_S:.0f} s: see {self._log(role)}")

    def _log(self, role: str) -> Path:
        return self.work_dir / f"{role}.log"

    def _sub_dir(self, name: str) -> Path:
        path = self.work_dir / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    # Signals

    def _catch_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._old_handlers[number] = signal.signal(number, _exit_on_signal)

    def _restore_signals(self) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers.clear()


def default_spark_home() -> Path:
    """Folder of the installed pyspark, which is a whole Spark distribution."""
    import pyspark

    return Path(pyspark.__file__).parent


def hand_on_priority(session: int) -> None:
    """Let a session that we started run at our own niceness.

    Linux schedules sessions as groups, so the niceness of a process says nothing outside its
    own; without this ``nice -n -10`` would have no effect on a busy machine.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness != 0:
        with contextlib.suppress(OSError):  # the session has ended, or the kernel has no groups
            Path(f"/proc/{session}/autogroup").write_text(str(niceness), encoding="ascii")


# Private functions


def _end_groups(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End process groups that we started: politely, then surely."""
    for process in processes:
        _signal_group(process, signal.SIGTERM)
    deadline_s = time.monotonic() + STOP_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, deadline_s - time.monotonic()))
    for process in processes:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
