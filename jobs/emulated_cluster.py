"""An emulated Spark cluster on one machine: hosts in network namespaces, links of a given rate.

Every host is a network namespace with one virtual cable into a bridge; both directions of the
cable are shaped with ``tc tbf``. A real Spark standalone master runs on the bridge's address,
where the driver runs too, and a real worker in every namespace.

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
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

LINK_PREFIX = "dgo"
NAMESPACE_PREFIX = "dagopt-"
ADDRESSES = ipaddress.IPv4Network("198.18.0.0/15")
"""Set apart for benchmarks (RFC 2544): neither public nor a usual private network."""

START_S = 60.0
"""Longest wait for a master or a worker to come up."""

STOP_S = 10.0
"""Longest wait for a process to end by itself before it is killed."""

PR_SET_PDEATHSIG = 1


class ClusterError(Exception):
    """The emulated cluster cannot be made on this machine; the message says what to do."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCount:
    """Bytes that crossed one host's link since it was made, protocol headers included."""

    in_bytes: int
    out_bytes: int


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
        if not 1 <= len(hosts) <= 200 or len({host.name for host in hosts}) != len(hosts):
            raise ClusterError("hosts: expected 1 to 200 hosts with different names")
        if link_mbit <= 0:
            raise ClusterError(f"link_mbit is {link_mbit}, must be > 0")
        self.hosts = {host.name: host for host in hosts}
        self.link_mbit = link_mbit
        self.work_dir = work_dir.resolve()
        self.spark_home = spark_home or default_spark_home()
        self._python = python
        self._subnet_wish = subnet
        self._pid = os.getpid()
        self._bridge = f"{LINK_PREFIX}{self._pid}br"
        self._index = {name: number for number, name in enumerate(self.hosts, start=1)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._old_handlers: dict[int, signal._HANDLER] = {}

    # Public functions

    def __enter__(self) -> EmulatedCluster:  # noqa: PYI034  Self needs Python 3.11
        check_machine()
        remove_leftovers()
        self._catch_signals()
        try:
            self._make_network()
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
        return str(self._subnet.network_address + 254)

    @property
    def master_url(self) -> str:
        """The ``spark.master`` of applications on this cluster."""
        return f"spark://{self.driver_address}:7077"

    def address(self, name: str) -> str:
        """Address of a host; Spark shows it as the host's name."""
        return str(self._subnet.network_address + 10 + self._index[name])

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

    def shape(self, link_mbit: float) -> None:
        """Change the rate of every link, both directions, in Mbit/s."""
        self.link_mbit = link_mbit
        for name in self.hosts:
            self._shape_host(name, "replace")

    def link_count(self, name: str) -> LinkCount:
        """Bytes that crossed a host's link so far, seen from the host."""
        base = Path("/sys/class/net") / self._cable(name) / "statistics"
        return LinkCount(
            in_bytes=int((base / "tx_bytes").read_text(encoding="ascii")),
            out_bytes=int((base / "rx_bytes").read_text(encoding="ascii")),
        )

    def start_worker(self, name: str, *, wait: bool = True) -> None:
        """Start the worker of a host; ``wait`` until the master knows it."""
        host = self.hosts[name]
        pin = [] if host.physical_core is None else ["taskset", "-c", str(host.physical_core)]
        properties = self._sub_dir("conf") / f"{name}.properties"
        service = str(host.shuffle_service).lower()
        properties.write_text(f"spark.shuffle.service.enabled {service}\n", encoding="utf-8")
        command = [
            *("ip", "netns", "exec", self._namespace(name), *pin),
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
            _remove_network(self._pid)
            self._restore_signals()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    # Network

    def _make_network(self) -> None:
        self._subnet = choose_subnet(self._subnet_wish)
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.driver_address}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for name in self.hosts:
            space, cable = self._namespace(name), self._cable(name)
            _run("ip", "netns", "add", space)
            _run(
                *(
                    "ip",
                    "link",
                    "add",
                    cable,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    "eth0",
                    "netns",
                    space,
                )
            )
            _run("ip", "link", "set", cable, "master", self._bridge, "up")
            _run("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            self._shape_host(name, "add")

    def _shape_host(self, name: str, verb: str) -> None:
        # The burst must hold one offloaded packet (64 KiB) and a timer tick's worth of bytes.
        burst_bytes = max(64 * 1024, int(self.link_mbit * 1e6 / 8 * 0.01))
        rate = f"{self.link_mbit * 1000:.0f}kbit"
        rule = ["root", "tbf", "rate", rate, "burst", str(burst_bytes), "latency", "400ms"]
        _run("tc", "qdisc", verb, "dev", self._cable(name), *rule)
        _run("tc", "-n", self._namespace(name), "qdisc", verb, "dev", "eth0", *rule)

    def _namespace(self, name: str) -> str:
        return f"{NAMESPACE_PREFIX}{self._pid}-{name}"

    def _cable(self, name: str) -> str:
        return f"{LINK_PREFIX}{self._pid}v{self._index[name]}"

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


def check_machine() -> None:
    """Raise ClusterError, in one line, unless a cluster can be made here."""
    if os.geteuid() != 0:
        raise ClusterError("the emulated cluster makes network namespaces: run as root")
    for tool in ("ip", "tc", "taskset"):
        if shutil.which(tool) is None:
            package = "util-linux" if tool == "taskset" else "iproute2"
            raise ClusterError(f"{tool} is missing: apt-get install {package}")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ClusterError("java is missing: apt-get install openjdk-17-jre-headless")


def choose_subnet(wish: str | None = None) -> ipaddress.IPv4Network:
    """The wished /24, or a free one of 198.18.0.0/15; ClusterError if the wish is taken."""
    entries = json.loads(_run("ip", "-j", "-4", "route", "show", "table", "all"))
    taken = [
        ipaddress.ip_network(entry["dst"], strict=False)
        for entry in entries
        if re.match(r"\d", entry.get("dst", ""))
    ]
    if wish is not None:
        wished = ipaddress.IPv4Network(wish)
        if wished.prefixlen != 24:
            raise ClusterError(f"subnet {wish}: expected a /24")
        if any(wished.overlaps(network) for network in taken):
            raise ClusterError(f"subnet {wish} is in use on this machine: choose another")
        return wished
    choices = list(ADDRESSES.subnets(new_prefix=24))
    start = os.getpid() % len(choices)  # two runs that start together look at different ones
    for choice in itertools.chain(choices[start:], choices[:start]):
        if not any(choice.overlaps(network) for network in taken):
            return choice
    raise ClusterError(f"no free /24 in {ADDRESSES}: give a subnet")


def hand_on_priority(session: int) -> None:
    """Let a session that we started run at our own niceness.

    Linux schedules sessions as groups, so the niceness of a process says nothing outside its
    own; without this ``nice -n -10`` would have no effect on a busy machine.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness != 0:
        with contextlib.suppress(OSError):  # the session has ended, or the kernel has no groups
            Path(f"/proc/{session}/autogroup").write_text(str(niceness), encoding="ascii")


def remove_leftovers() -> None:
    """Remove the networks of emulated clusters whose process is dead."""
    for pid in _cluster_pids():
        if not Path(f"/proc/{pid}").exists():
            _remove_network(pid)


# Private functions


def _cluster_pids() -> set[int]:
    names = " ".join([*_namespaces(), *_links()])
    found = re.findall(rf"\b(?:{LINK_PREFIX}(\d+)(?:br|v\d+)|{NAMESPACE_PREFIX}(\d+)-)", names)
    return {int(link or space) for link, space in found}


def _links() -> list[str]:
    return [link.name for link in Path("/sys/class/net").iterdir()]


def _namespaces() -> list[str]:
    return [line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line]


def _remove_network(pid: int) -> None:
    spaces = [name for name in _namespaces() if name.startswith(f"{NAMESPACE_PREFIX}{pid}-")]
    for space in spaces:
        # Only what we started can be in a namespace that we made.
        for process in _run("ip", "netns", "pids", space, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
    for link in _links():
        if re.fullmatch(rf"{LINK_PREFIX}{pid}(br|v\d+)", link):
            _run("ip", "link", "del", link, check=False)
    for space in spaces:
        _run("ip", "netns", "del", space, check=False)


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


def _run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
