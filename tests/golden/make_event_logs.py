"""Make the event logs in ``event_log/`` with real Spark; run by hand, never by a test.

    python tests/golden/make_event_logs.py                       # the installed pyspark
    SPARK_HOME=S/pyspark PYTHONPATH=S python tests/golden/make_event_logs.py    # one unpacked in S

Each run of the script writes the logs of one Spark line, ``spark-4.3-jobs.gz`` and so on; the
compressed forms come from Spark's own codecs. What describes the machine is left out or
replaced: ``SparkListenerEnvironmentUpdate``, most properties, folders, host names.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.gpu_bench.modes import fake_gpus

HERE = Path(__file__).resolve().parent
OUT = HERE / "event_log"
LINE = ".".join(pyspark.__version__.split(".")[:2])
DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
}
KEPT_PROPERTIES = ("spark.sql.execution.id", "spark.scheduler.pool", "spark.job.description")


def run_jobs(spark: SparkSession, scratch: Path) -> None:
    """What programs do: SQL with a join, RDDs, Python workers, a retry, a lost map output."""
    sc = spark.sparkContext
    orders = spark.range(40_000).withColumn("customer", F.col("id") % 997)
    customers = spark.range(997).withColumnRenamed("id", "customer").withColumn("rank", F.rand(1))
    orders.write.parquet(str(scratch / "orders"))
    joined = spark.read.parquet(str(scratch / "orders")).join(customers.hint("merge"), "customer")
    assert joined.groupBy("customer").agg(F.sum("rank")).count() == 997

    pairs = sc.parallelize(range(20_000), 6).map(lambda n: (n % 100, 1))
    counted = pairs.reduceByKey(lambda a, b: a + b, 4)
    assert counted.count() == 100

    doubled = orders.mapInPandas(lambda frames: (2 * frame for frame in frames), orders.schema)
    assert doubled.count() == 40_000

    assert sc.parallelize(range(4), 4).mapPartitionsWithIndex(fail_first_attempt).count() == 4
    assert sc.parallelize(range(2), 2).barrier().mapPartitions(lambda part: part).count() == 2

    for data in scratch.rglob("shuffle_*.data"):
        data.unlink()  # the next read fails to fetch, so the map stage runs again
    assert counted.count() == 100


def fail_first_attempt(partition: int, rows: Iterable[int]) -> Iterable[int]:
    """Raise in the first attempt of partition 1."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if partition == 1 and context is not None and context.attemptNumber() == 0:
        raise ValueError("first attempt")
    return rows


def run_two_cpus(spark: SparkSession, scratch: Path) -> None:
    """Two tasks of two cpus and half a second each: what Executor Run Time means."""
    del scratch
    rdd = spark.sparkContext.parallelize(range(2), 2)
    assert rdd.map(sleep).count() == 2


def sleep(number: int) -> int:
    """Take half a second."""
    time.sleep(0.5)
    return number


def run_decommission(spark: SparkSession, scratch: Path) -> None:
    """An executor is decommissioned between the writing and the reading of map outputs."""
    del scratch
    sc = spark.sparkContext
    pairs = sc.parallelize(range(20_000), 6).map(lambda n: (n % 100, 1))
    counted = pairs.reduceByKey(lambda a, b: a + b, 4)
    assert counted.count() == 100
    decommission(spark, "0")
    assert counted.map(slow_pair).count() == 100


def slow_pair(pair: tuple[int, int]) -> tuple[int, int]:
    """Take 20 ms a pair."""
    time.sleep(0.02)
    return pair


def decommission(spark: SparkSession, executor: str) -> None:
    """Ask for it as a cluster manager would, and wait until the executor is gone."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    backend = spark.sparkContext._jsc.sc().schedulerBackend()
    nothing = jvm.scala.Option.empty()
    info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("going away", nothing)
    assert backend.decommissionExecutor(executor, info, False, False)
    while backend.getExecutorIds().contains(executor):
        time.sleep(0.2)


def run_push(spark: SparkSession, scratch: Path) -> None:
    """Map tasks push their blocks to a shuffle service, and reducers read what it merged of them.

    Only on YARN does Spark look for services to push to, so the shuffle is told of one here. It goes by
    another name than the executors' host, so that what it merged is read over the network.
    """
    del scratch
    jvm: Any = spark.sparkContext._jvm
    port = int(spark.conf.get("spark.shuffle.service.port") or 0)
    no_rack = jvm.scala.Option.empty()
    manager = jvm.org.apache.spark.storage.BlockManagerId
    merger = manager.apply("shuffle-push-merger", "127.0.0.1", port, no_rack)
    rows = spark.range(0, 40_000, 1, 6).repartition(4, "id")._jdf.queryExecution().toRdd()
    shuffle_of(rows).setMergerLocs(jvm.PythonUtils.toSeq([merger]))
    assert rows.count() == 40_000


def shuffle_of(rdd: Any) -> Any:
    """The first shuffle on the way up from an RDD of the JVM."""
    dependency = rdd.dependencies().apply(0)
    if dependency.getClass().getSimpleName() == "ShuffleDependency":
        return dependency
    return shuffle_of(dependency.rdd())


def start_merging_service() -> tuple[Any, dict[str, str]]:
    """A shuffle service that merges blocks, in this JVM, and the properties of an application that uses it.

    The service of Spark's workers does not merge, that of YARN does. The switch is for YARN too, or for
    Spark's own tests.
    """
    gateway: Any = pyspark.SparkContext._gateway  # its JVM outlives the session
    network = gateway.jvm.org.apache.spark.network
    nothing = network.util.MapConfigProvider(gateway.jvm.java.util.HashMap())
    conf = network.util.TransportConf("shuffle", nothing)
    merging = network.shuffle.RemoteBlockPushResolver(conf, None)
    handler = network.shuffle.ExternalBlockHandler(conf, None, merging)
    context = network.TransportContext(conf, handler)
    server = context.createServer(0, gateway.jvm.java.util.ArrayList())
    return server, {
        "spark.shuffle.service.enabled": "true",
        "spark.shuffle.service.port": str(server.getPort()),
        "spark.shuffle.push.enabled": "true",
        "spark.testing": "true",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.shuffle.push.minShuffleSizeToWait": "0",
        "spark.shuffle.push.finalize.timeout": "3s",
        "spark.sql.adaptive.enabled": "false",
    }


def run_gpu(spark: SparkSession, scratch: Path) -> None:
    """Decode and infer, as Spark fuses them: 16 tasks of 0.4 s and 0.1 s, one GPU at a time."""
    del scratch
    requests = TaskResourceRequests().cpus(1).resource("gpu", 1)
    profile = ResourceProfileBuilder().require(requests).build
    rows = spark.range(16, numPartitions=16)
    decoded = rows.mapInPandas(decode, "id long, payload binary")
    assert decoded.mapInPandas(infer, "id long", profile=profile).count() == 16


def decode(frames: Iterable[Any]) -> Iterator[Any]:
    """Take 0.4 s a batch."""
    for frame in frames:
        time.sleep(0.4)
        yield frame.assign(payload=[b"x" * 100_000] * len(frame))


def infer(frames: Iterable[Any]) -> Iterator[Any]:
    """Take 0.1 s a batch."""
    for frame in frames:
        time.sleep(0.1)
        yield frame[["id"]]


def record(job: Callable[[SparkSession, Path], None], master: str, **conf: str) -> list[bytes]:
    """Run one application, and its cleaned event log's lines."""
    with tempfile.TemporaryDirectory(prefix="dagopt-golden-") as folder:
        scratch = Path(folder)
        builder = SparkSession.builder.master(master).appName(job.__name__)
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (scratch / "log").as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.local.dir": str(scratch),
            "spark.executor.memory": "512m",
            "spark.shuffle.readHostLocalDisk": "false",
            "spark.sql.shuffle.partitions": "6",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for key, value in {**settings, **conf}.items():
            builder = builder.config(key, value)
        (scratch / "log").mkdir()
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            job(spark, scratch)
        finally:
            spark.stop()
        (log,) = (scratch / "log").iterdir()
        return list(clean_lines(log.read_bytes(), scratch))


def clean_lines(log: bytes, scratch: Path) -> Iterator[bytes]:
    """The log's lines without what tells about the machine."""
    for line in log.decode().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerEnvironmentUpdate":
            continue
        properties = event.get("Properties")
        if properties is not None:
            event["Properties"] = {k: properties[k] for k in KEPT_PROPERTIES if k in properties}
        event.pop("User", None)
        for info in [event.get("Stage Info", {}), *event.get("Stage Infos", [])]:
            info.pop("Details", None)
        for request in event.get("Executor Resource Requests", {}).values():
            request["Discovery Script"] = ""
        if "Executor Info" in event:
            event["Executor Info"]["Log Urls"] = {}
        text = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        text = text.replace(str(scratch), "/scratch").replace(str(HERE), "/job")
        text = re.sub(r"(?<![\w/])/[\w./+-]*/(?=(?:pyspark|python3)[\w./-]*)", "/lib/", text)
        yield text.encode()


def write_with_spark(lines: list[bytes], codec: str, path: Path) -> None:
    """Compress lines with Spark's own codec of that name."""
    gateway: Any = pyspark.SparkContext._gateway  # its JVM outlives the session
    jvm = gateway.jvm
    out = jvm.org.apache.spark.io.CompressionCodec.createCodec(
        jvm.org.apache.spark.SparkConf(), codec
    ).compressedOutputStream(jvm.java.io.FileOutputStream(str(path)))
    out.write(b"".join(line + b"\n" for line in lines))
    out.close()


def main() -> None:
    """Write all logs of the Spark on the path."""
    OUT.mkdir(exist_ok=True)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers need pandas and pyarrow too
    jobs = record(run_jobs, "local-cluster[2,1,512]")
    two_cpus = record(run_two_cpus, "local[2]", **{"spark.task.cpus": "2"})
    gone = record(run_decommission, "local-cluster[3,1,512]", **DECOMMISSION)
    service, properties = start_merging_service()
    pushed = record(run_push, "local-cluster[2,1,512]", **properties)
    service.close()
    logs = [("jobs", jobs), ("two_cpus", two_cpus), ("decommission", gone), ("push", pushed)]
    if LINE >= "4.0":  # operators take a profile
        with tempfile.TemporaryDirectory() as folder:
            gpus = fake_gpus(Path(folder), 1)
            logs.append(("gpu", record(run_gpu, "local-cluster[1,4,640]", **gpus)))
    for name, lines in logs:
        data = b"".join(line + b"\n" for line in lines)
        (OUT / f"spark-{LINE}-{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    for codec in ("lz4", "snappy", "zstd"):
        write_with_spark(two_cpus, codec, OUT / f"spark-{LINE}-two_cpus.{codec}")
    for path in sorted(OUT.glob(f"spark-{LINE}-*")):
        sys.stdout.write(f"Wrote {path} ({path.stat().st_size} bytes)\n")


if __name__ == "__main__":
    main()
