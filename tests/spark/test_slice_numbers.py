"""Tasks of a slice of an RDD have the numbers of their partitions in the whole."""

from __future__ import annotations

import json

import pytest

from tests.conftest import RunSparkScript

pytestmark = pytest.mark.spark

SCRIPT = """
import json
from pyspark import RDD, SparkContext, TaskContext

sc = SparkContext.getOrCreate()

def numbers(parts):
    return [TaskContext.get().partitionId()]

whole = sc.range(0, 40, 1, 8).mapPartitions(numbers)
any_class = sc._jvm.scala.reflect.ClassTag.Any()
of = sc._jvm.org.apache.spark.sql.dagopt.SliceRDD
slice_of = lambda rdd, *place: of(rdd, *place, any_class)
one = slice_of(whole._jrdd.rdd(), 3, 4, 3, 8)
# What a GPU stage reads is numbered from 0, and belongs to the partitions from 5 on.
two = slice_of(sc.range(0, 9, 1, 2).mapPartitions(numbers)._jrdd.rdd(), 0, 2, 5, 8)
rdds = [RDD(rdd.toJavaRDD(), sc, whole._jrdd_deserializer) for rdd in (one, two)]
print("result", json.dumps([rdd.glom().collect() for rdd in [whole, *rdds]]))
"""


def test_tasks_of_a_slice_have_the_numbers_of_the_whole(run_spark_script: RunSparkScript) -> None:
    ended = run_spark_script(SCRIPT, conf={"spark.master": "local[2]"}).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    whole, one, two = json.loads(line.removeprefix("result "))
    assert whole == [[number] for number in range(8)]
    assert one == [[3], [4], [5], [6]]
    assert two == [[5], [6]]
