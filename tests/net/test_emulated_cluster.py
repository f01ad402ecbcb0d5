"""The emulated cluster comes up, its links have the rate asked for, and nothing is left behind.

Times are compared with each other only: the machine's own speed must not matter.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.emulated_cluster import EmulatedCluster, HostSpec
from jobs.emulated_network import (
    ADDRESSES,
    ClusterError,
    EmulatedNetwork,
    check_machine,
    choose_subnet,
    remove_leftovers,
)

try:
    check_machine()
    UNABLE = ""
except ClusterError as error:
    UNABLE = str(error)

pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.skipif(bool(UNABLE), reason=UNABLE),
]

REPOSITORY = Path(__file__).resolve().parents[2]

StartHolder = Callable[[Path], "subprocess.Popen[str]"]

SLOW_MBIT, FAST_MBIT = 8.0, 80.0

DRIVER = """
import json, sys, time
from pyspark.sql import SparkSession, functions as F

conf, commands = json.loads(sys.argv[1]), sys.stdin
spark = SparkSession.builder.config(map=conf).getOrCreate()
payload = F.lpad(F.col("part").cast("string"), 100_000, "x").alias("payload")
parts = spark.range(0, 160, 1, 2).select(F.pmod(F.col("id"), F.lit(2)).cast("int").alias("part"))
moved = parts.select("part", payload).repartitionById(2, "part")
result = moved.select(F.length("payload").alias("bytes"))
total = sum(row.bytes for row in result.collect())  # writes the map outputs, and warms up
print(json.dumps({"bytes": total}), flush=True)
for line in commands:
    start_s = time.monotonic()
    result.collect()
    print(json.dumps({"elapsed_s": time.monotonic() - start_s}), flush=True)
spark.stop()
"""

HOLD = """
import signal
import sys
from pathlib import Path
# Whatever a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from jobs.emulated_cluster import EmulatedCluster, HostSpec

with EmulatedCluster([HostSpec(name="h1")], link_mbit=100, work_dir=Path(sys.argv[2])) as cluster:
    print(cluster.driver_address, flush=True)
    sys.stdin.read()
"""


RECEIVE = """
import socket, sys, time

with socket.create_server((sys.argv[1], 5001)) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    count = len(connection.recv(1))
    start_s = time.monotonic()
    while data := connection.recv(1 << 16):
        count += len(data)
    print(count, time.monotonic() - start_s, flush=True)
"""

SEND = """
import socket, sys

with socket.create_connection((sys.argv[1], 5001)) as connection:
    connection.sendall(bytes(int(sys.argv[2])))
"""


def traces(pid: int) -> list[str]:
    """What a cluster of this process has on the machine: namespaces, links and processes."""
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    found = re.findall(rf"\b(?:dagopt-{pid}-\w+|dgo{pid}\w+)", spaces.stdout + links.stdout)
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = entry.read_bytes()
        except OSError:
            continue
        if f"/cluster-of-{pid}/".encode() in environment:
            found.append(f"process {entry.parent.name}")
    return found


def transfer_s(network: EmulatedNetwork, sender: str, receiver: str, num_bytes: int) -> float:
    """Seconds from the first byte of a TCP transfer to the last, at the receiver."""
    enter = ["ip", "netns", "exec"]
    address = network.address(receiver)
    with subprocess.Popen(
        [*enter, network.namespace(receiver), sys.executable, "-c", RECEIVE, address],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        send = [sys.executable, "-c", SEND, address, str(num_bytes)]
        subprocess.run([*enter, network.namespace(sender), *send], check=True)
        received_bytes, elapsed_s = process.stdout.readline().split()
    assert int(received_bytes) == num_bytes
    return float(elapsed_s)


def await_nothing(pid: int) -> list[str]:
    deadline_s = time.monotonic() + 30
    while traces(pid) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return traces(pid)


@pytest.fixture
def start_holder() -> Iterator[StartHolder]:
    """Starts processes that have a cluster until their stdin is closed."""
    processes: list[subprocess.Popen[str]] = []

    def start(folder: Path) -> subprocess.Popen[str]:
        folder.mkdir(exist_ok=True)
        # The shell's pid is the holder's, after exec: so its folder can carry it.
        script = 'mkdir -p "$2/cluster-of-$$" && exec "$0" -c "$1" "$3" "$2/cluster-of-$$/work"'
        process = subprocess.Popen(
            ["sh", "-c", script, sys.executable, HOLD, str(folder), str(REPOSITORY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the cluster did not come up"
        (folder / "address").write_text(address)
        return process

    yield start
    for process in processes:
        process.communicate()


def test_a_shuffle_is_not_faster_than_the_links_and_nothing_is_left(tmp_path: Path) -> None:
    hosts = [HostSpec(name="h1", physical_core=0), HostSpec(name="h2")]
    work_dir = tmp_path / f"cluster-of-{os.getpid()}"
    with EmulatedCluster(hosts, link_mbit=FAST_MBIT, work_dir=work_dir) as cluster:
        assert traces(os.getpid())
        conf = {
            "spark.master": cluster.master_url,
            "spark.driver.host": cluster.driver_address,
            "spark.driver.bindAddress": cluster.driver_address,
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.shuffle.compress": "false",
            "spark.sql.adaptive.enabled": "false",
            "spark.ui.enabled": "false",
        }
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps(conf)],
            env=cluster.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert driver.stdin is not None
            assert driver.stdout is not None
            assert json.loads(driver.stdout.readline())["bytes"] == 16_000_000

            elapsed_s, moved_bytes = {}, {}
            for link_mbit in (FAST_MBIT, SLOW_MBIT):
                cluster.network.shape(link_mbit)
                before = cluster.network.link_count("h1").in_bytes
                driver.stdin.write("run\n")
                driver.stdin.flush()
                elapsed_s[link_mbit] = json.loads(driver.stdout.readline())["elapsed_s"]
                moved_bytes[link_mbit] = cluster.network.link_count("h1").in_bytes - before
            driver.stdin.close()
            assert driver.wait(timeout=60) == 0
        finally:
            driver.kill()
            driver.wait()
            if driver.stdout is not None:
                driver.stdout.close()

    # Half of a host's 8 MB lies on the other host.
    for link_mbit, count in moved_bytes.items():
        assert 4_000_000 <= count <= 6_000_000
        assert elapsed_s[link_mbit] >= 4_000_000 * 8 / (link_mbit * 1e6) * 0.9
    assert await_nothing(os.getpid()) == []


def test_links_have_the_rate_asked_for_in_both_directions() -> None:
    network = EmulatedNetwork(["h1", "h2"], link_mbit=FAST_MBIT, subnet=None)
    network.create()
    try:
        for sender, receiver in (("h1", "h2"), ("h2", "h1")):
            fast_s = transfer_s(network, sender, receiver, 4_000_000)
            network.shape(SLOW_MBIT)
            slow_s = transfer_s(network, sender, receiver, 4_000_000)
            network.shape(FAST_MBIT)
            assert slow_s >= 4_000_000 * 8 / (SLOW_MBIT * 1e6) * 0.9
            # Ten times the rate; the machine may be busy, which slows the faster one more.
            assert slow_s >= 3 * fast_s
    finally:
        network.remove()
    assert await_nothing(os.getpid()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(
    start_holder: StartHolder, tmp_path: Path, number: signal.Signals
) -> None:
    process = start_holder(tmp_path)
    assert traces(process.pid)
    process.send_signal(number)
    assert process.wait(timeout=60) != 0
    assert await_nothing(process.pid) == []


def test_what_a_killed_cluster_leaves_goes_with_the_next_start(
    start_holder: StartHolder, tmp_path: Path
) -> None:
    process = start_holder(tmp_path)
    process.kill()
    process.wait()
    assert traces(process.pid)  # nobody could remove the network
    remove_leftovers()
    assert await_nothing(process.pid) == []


def test_a_living_cluster_is_not_a_leftover(start_holder: StartHolder, tmp_path: Path) -> None:
    process = start_holder(tmp_path)
    before = traces(process.pid)
    remove_leftovers()
    assert set(traces(process.pid)) >= {name for name in before if "process" not in name}
    process.terminate()
    process.wait(timeout=60)
    assert await_nothing(process.pid) == []


def test_two_clusters_get_different_addresses(start_holder: StartHolder, tmp_path: Path) -> None:
    first, second = start_holder(tmp_path / "a"), start_holder(tmp_path / "b")
    addresses = {(tmp_path / name / "address").read_text() for name in ("a", "b")}
    for process in (first, second):
        process.terminate()
        process.wait(timeout=60)
    assert len(addresses) == 2
    assert await_nothing(first.pid) + await_nothing(second.pid) == []


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    cluster = EmulatedCluster(
        [HostSpec(name="h1")],
        link_mbit=100,
        work_dir=tmp_path / f"cluster-of-{os.getpid()}",
        spark_home=tmp_path,
    )
    with pytest.raises((ClusterError, FileNotFoundError)), cluster:
        raise AssertionError("there is no Spark in an empty folder")
    assert await_nothing(os.getpid()) == []


def test_a_subnet_in_use_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"subnet 127\.0\.0\.0/24 is in use on this machine"):
        choose_subnet("127.0.0.0/24")
    with pytest.raises(ClusterError, match="expected a /24"):
        choose_subnet("198.18.0.0/16")
    free = choose_subnet()
    assert ADDRESSES.network_address <= free.network_address <= ADDRESSES.broadcast_address


def test_wrong_hosts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="1 to 200 hosts with different names"):
        EmulatedCluster([], link_mbit=100, work_dir=tmp_path)
    with pytest.raises(ClusterError, match="link_mbit is 0, must be > 0"):
        EmulatedCluster([HostSpec(name="h1")], link_mbit=0, work_dir=tmp_path)
