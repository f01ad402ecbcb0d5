"""The benchmark's pipeline on Ray Data: the same functions, in a process that is told what to run."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pyarrow as pa
import ray

from jobs.gpu_bench.cases import Case, case_of, decoder_of, digest
from jobs.gpu_bench.work import Load, score_rows
from jobs.overlap.serve import serve_commands, take_stdout

OBJECT_STORE_BYTES = 2 * 1024**3


def main() -> None:
    """Start Ray with as many emulated cores as Spark has, and one GPU, and serve commands."""
    answers = take_stdout()
    request = json.loads(sys.argv[1])
    ray.init(
        num_cpus=request["num_cores"],
        num_gpus=1,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=request["temp_dir"],
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        serve_commands(answers, {}, run)
    finally:
        ray.shutdown()


def run(command: dict[str, Any]) -> dict[str, Any]:
    """Carry out ``{"do": "run", ...}``."""
    case, load = case_of(command["case"]), Load(**command["load"])
    start_s = time.perf_counter()
    rows = pipeline(case, load, command).take_all()
    elapsed_s = time.perf_counter() - start_s
    found = digest((row["row"], row["score"]) for row in rows)
    return {"elapsed_s": elapsed_s, "digest": found, "gpu_stages": []}


def pipeline(case: Case, load: Load, command: dict[str, Any]) -> ray.data.Dataset:
    """The case's rows with their scores."""
    decode = decoder_of(case, load)

    def decode_batch(batch: pa.Table) -> pa.Table:
        payloads = decode(batch.column(batch.num_columns - 1).to_pylist())
        return pa.table({"row": batch.column(0), "payload": pa.array(payloads, pa.binary())})

    def score_batch(batch: pa.Table) -> pa.Table:
        (address,) = ray.get_runtime_context().get_accelerator_ids()["GPU"]
        scores = score_rows(batch.column("payload").to_pylist(), address, load)
        return pa.table({"row": batch.column("row"), "score": pa.array(scores, pa.int64())})

    if case.is_real:
        source = ray.data.read_parquet(
            command["images"], columns=["image", "jpeg"], override_num_blocks=case.num_tasks
        )
    else:
        num_rows = case.num_tasks * case.num_rows
        source = ray.data.range(num_rows, override_num_blocks=case.num_tasks)
    size, arrow = command["batch_rows"], "pyarrow"
    decoded = source.map_batches(decode_batch, batch_size=size, batch_format=arrow, num_cpus=1)
    # By default Ray starts a process for each GPU task, which takes seconds; Spark keeps its own.
    return decoded.map_batches(
        score_batch, batch_size=size, batch_format=arrow, num_gpus=1, max_calls=0
    )


if __name__ == "__main__":
    main()
