"""A Spark session in this process, for benchmarks that measure within an application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def local_session(master: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A quiet session on the loopback device, stopped at the end.

    Args:
        master: such as ``local-cluster[2,1,1024]``.
        conf: what else is set.
    """
    builder = SparkSession.builder.master(master)
    for key, value in {**_CONF, **conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
