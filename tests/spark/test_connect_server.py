"""A Spark Connect server with dagopt: a client that knows nothing of it gets its rows, and stages were decided on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import BASE_CONF, ROOT, run_process, spark_submit

pytestmark = pytest.mark.spark

CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = spark.range(0, 1000, 1, 4).repartition(4, "id")
print("rows", frame.groupBy("id").count().count(), sum(row[0] for row in frame.collect()))
"""
START_S = 180


def test_a_client_of_a_connect_server(spark_jar: Path, tmp_path: Path) -> None:
    for module in ("grpc", "grpc_status", "google.rpc", "pandas"):
        pytest.importorskip(module, reason="needs the packages of pyspark[connect]")
    if not list((spark_submit().parents[1] / "jars").glob("spark-connect_*.jar")):
        pytest.skip("this pyspark brings no Spark Connect server")
    assert spark_jar.is_file()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    decisions = tmp_path / "decisions.jsonl"
    settings = {
        **BASE_CONF,
        "spark.master": "local[2]",
        "spark.local.dir": str(tmp_path / "spark"),
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.dagopt.minInputBytes": "0",
        "spark.dagopt.decisionLog": str(decisions),
        "spark.dagopt.planner.timeout": "30s",
    }
    command = [sys.executable, "-m", "dagopt.cli", "submit"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_submit().parents[1]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    log = tmp_path / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [*command, "spark-internal"], cwd=tmp_path, env=own, stdout=out, stderr=out,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for_port(port, server, log)
        (tmp_path / "client.py").write_text(CLIENT, encoding="utf-8")
        client = run_process(
            [sys.executable, "client.py", f"sc://127.0.0.1:{port}"],
            cwd=tmp_path,
            environment={"PYTHONPATH": own["PYTHONPATH"]},
            timeout_s=180,
        ).ok()
        assert f"rows 1000 {sum(range(1000))}\n" in client.stdout
        made = [json.loads(line) for line in decisions.read_text().splitlines()]
        assert made
        assert "dagopt is off" not in log.read_text()
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(60)
        finally:
            # The server is the leader of its group: whatever it left behind is in it.
            left = subprocess.run(
                ["ps", "-o", "pid=,args=", "-g", str(server.pid)],
                capture_output=True, text=True, check=False,
            ).stdout  # fmt: skip
            if left.strip():
                os.killpg(server.pid, signal.SIGKILL)
    assert "dagopt.planner" not in left


def wait_for_port(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"no server after {START_S} s:\n{log.read_text()[-4000:]}")
