"""Training jobs of one application: prints a JSON object of what each scenario did."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from pyspark.sql import SparkSession

from dagopt.cli.main import main as command
from dagopt.errors import DagoptError
from dagopt.train import Scheduler, SweepJob, TrainJob
from dagopt.tune import Tuner
from jobs.sweep_models import Logistic
from jobs.train_jobs import alone, worst_error

warnings.simplefilter("ignore")
WORK = Path(sys.argv[1])
NUM_ROWS = 200


def table() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    x = random.normal(size=(NUM_ROWS, 8)).astype(np.float32)
    return x, np.tanh(x @ random.normal(size=(8, 2))).astype(np.float32)


class Model:
    """Least squares with momentum; a micro-batch takes some milliseconds."""

    num_examples = NUM_ROWS
    wait_s = 0.005

    def init(self, seed: int) -> dict[str, Any]:
        weights = np.random.default_rng(seed).normal(size=(8, 2)).astype(np.float32)
        return {"w": weights, "v": np.zeros_like(weights)}

    def batch(self, indices: Any) -> Any:
        x, y = table()
        return x[indices], y[indices]

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
        x, y = batch
        time.sleep(self.wait_s)
        error = x @ state["w"] - y
        return float((error**2).mean()), {"w": x.T @ error / len(x)}

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        state["v"] *= np.float32(0.9)
        state["v"] -= np.float32(0.02 / (1 + iteration / 50)) * gradients["w"]
        state["w"] += state["v"]


class Raising(Model):
    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        print(f"at {iteration}")
        if iteration == 5:
            raise ValueError("no further")
        super().update(state, gradients, iteration)


class Once(Model):
    """Does something bad in iteration 10, once."""

    def __init__(self, name: str) -> None:
        self.flag = WORK / name

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        if iteration == 10 and is_task():
            with contextlib.suppress(FileExistsError):
                self.flag.touch(exist_ok=False)
                self.bad()
        super().update(state, gradients, iteration)

    def bad(self) -> None:
        time.sleep(1000)


class Killing(Once):
    def bad(self) -> None:
        os.kill(int(executor_process()), signal.SIGKILL)


class Straggling(Model):
    """Slow on every executor but the one that it first runs on."""

    def __init__(self, name: str) -> None:
        self.flag = WORK / name

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
        if is_task():
            with contextlib.suppress(FileExistsError), self.flag.open("x") as first:
                first.write(executor_process())
            if self.flag.read_text() not in ("", executor_process()):
                time.sleep(8 * self.wait_s)
        return super().gradients(state, batch)


class Hanging(Model):
    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        if iteration == 10 and is_task():
            time.sleep(1000)
        super().update(state, gradients, iteration)


def executor_process() -> str:
    """Id of the JVM in which this task runs."""
    return Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]


def is_task() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None


def job(name: str, training: Any, num_iterations: int = 60, **fields: Any) -> TrainJob:
    return TrainJob(
        name=name, training=training, num_iterations=num_iterations, global_batch=48, **fields
    )


def error_of(call: Any) -> str:
    try:
        call()
    except DagoptError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def summary(scheduler: Scheduler, *jobs: TrainJob) -> dict[str, Any]:
    """What all scenarios tell, by job, and the accelerators that were in two phases at once."""
    found: dict[str, Any] = {}
    for one in jobs:
        status = scheduler.status(one.name)
        found[one.name] = {
            "status": status.status,
            "iteration": status.iteration,
            "restarts": status.num_restarts,
            "error": status.error,
            "losses": worst_error(status.losses, alone(one)[: status.iteration]),
        }
    stays = sorted(
        (slot.executor, slot.place, stay.from_s, stay.until_s or float("inf"))
        for stay in scheduler.stays
        for slot in stay.slots
    )
    found["overlaps"] = sum(
        one[:2] == other[:2] and other[2] < one[3] for one, other in itertools.pairwise(stays)
    )
    names = {one.name for one in jobs}
    reached = sum(run.job in names for run in scheduler.runs)
    found["lost"] = sum(stay.job in names for stay in scheduler.stays) - reached
    found["sizes"] = {
        one.name: sorted({len(run.slots) for run in scheduler.runs if run.job == one.name})
        for one in jobs
    }
    found["moves"] = [move.lost_s for move in scheduler.moves]
    return found


def shared(spark: Any) -> dict[str, Any]:
    """Two jobs that are resized, and one that raises between them."""
    jobs = [job("long", Model(), 300), job("short", Model(), 60), job("raising", Raising())]
    with Scheduler(spark, interval_s=1.0) as scheduler:
        scheduler.submit(jobs[0])
        time.sleep(3)
        for one in jobs[1:]:
            scheduler.submit(one)
        scheduler.wait()
        logs = scheduler.logs("raising")
        final = scheduler.state("long")
        return {
            **summary(scheduler, *jobs[:2]),
            "raising": scheduler.status("raising").error,
            "printed": "at 0" in logs,
            "state": sorted(final),
        }


def hangs(spark: Any) -> dict[str, Any]:
    jobs = [
        job("once", Once("hung"), deadline_s=4.0),
        job("always", Hanging(), deadline_s=2.0, max_restarts=1, max_accelerators=1),
    ]
    with Scheduler(spark, interval_s=1.0) as scheduler:
        for one in jobs:
            scheduler.submit(one)
        scheduler.wait()
        return summary(scheduler, *jobs)


def commands(spark: Any) -> dict[str, Any]:
    """The command line, cancelling, and what is refused."""
    spool = str(WORK / "spool")
    file = WORK / "job.py"
    lines = ["from __future__ import annotations", "from dataclasses import dataclass"]
    lines += [
        "import numpy as np",
        "from dagopt.train import TrainJob",
        "@dataclass",
        "class Tiny:",
    ]
    lines += ["    num_examples: int = 10", "    def init(self, seed): return {'w': np.zeros(1)}"]
    lines += ["    def batch(self, indices): return indices"]
    lines += ["    def gradients(self, state, batch): return 1.0, {'w': np.ones(1)}"]
    lines += ["    def update(self, state, gradients, iteration): print('hello', iteration)"]
    lines += ["job = TrainJob(name='tiny', training=Tiny(), num_iterations=4, global_batch=12)"]
    file.write_text("\n".join(lines))

    def run(*arguments: str) -> list[Any]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command(["train", *arguments, "--spool", spool])
        return [code, out.getvalue(), err.getvalue()]

    found: dict[str, Any] = {"nobody": run("list")}
    with Scheduler(spark, interval_s=1.0, spool=spool) as scheduler:
        endless = job("endless", Model(), 10**6)
        scheduler.submit(endless)
        found["submit"] = run("submit", str(file))
        found["again"] = run("submit", str(file))
        file.write_text("\n".join([*lines[:-1], lines[-1].replace("tiny", "half"), lines[-1]]))
        found["half"] = run("submit", str(file))
        file.write_text("import sys\nsys.exit(1)")
        found["exits"] = run("submit", str(file))
        found["second"] = error_of(lambda: Scheduler(spark, spool=spool))
        while scheduler.status("tiny").status != "done":
            time.sleep(0.1)
        found["logs"] = run("logs", "tiny")
        found["list"] = json.loads(run("list", "--json")[1])
        found["cancel"] = run("cancel", "endless")
        found["unknown"] = run("cancel", "nothing")
        found["over"] = run("cancel", "tiny")
        found["ended"] = scheduler.wait(60)
        found["status"] = scheduler.status("endless").status
        # All accelerators are there for whoever comes next.
        next_one = job("next", Model(), 100)
        scheduler.submit(next_one)
        scheduler.wait()
        found["next"] = summary(scheduler, next_one)
        found["large"] = error_of(
            lambda: scheduler.submit(job("large", Model(), max_accelerators=9))
        )
        locked = Model()
        locked.lock = threading.Lock()  # type: ignore[attr-defined]
        found["pickle"] = error_of(lambda: scheduler.submit(job("locked", locked)))
        (WORK / "open").mkdir(mode=0o755)
        found["open"] = error_of(lambda: Scheduler(spark, spool=str(WORK / "open")))
    return found


class Slow(Logistic):
    """A step that takes its time, for each trial of a stack."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> Any:
        time.sleep(0.005 * np.size(params["lr"]))
        return super().step(state, batch, params, xp)


def sweep_data(_: Any) -> list[dict[str, Any]]:
    x, y = table()
    one_hot = np.eye(2, dtype=np.float32)[(y[:, 0] > 0).astype(int)]
    return [{"x": x[n : n + 50], "y": one_hot[n : n + 50]} for n in range(0, 200, 50)]


def study() -> Any:
    sampler = optuna.samplers.RandomSampler(seed=1)
    return optuna.create_study(sampler=sampler, pruner=optuna.pruners.NopPruner())


SPACE = {"lr": optuna.distributions.FloatDistribution(1e-3, 0.3, log=True)}


def swept(spark: Any) -> dict[str, Any]:
    """A sweep beside a training, and alone."""
    search = SweepJob(
        name="search",
        trainable=Slow(8, 2),
        data=sweep_data,
        study=study(),
        space=SPACE,
        num_trials=8,
        max_iterations=600,
        phase_iterations=100,
    )
    beside = job("beside", Model(), 60)
    with Scheduler(spark, interval_s=1.0) as scheduler:
        scheduler.submit(search, beside)
        scheduler.wait()
        found = summary(scheduler, beside)
        status, result = scheduler.status("search"), scheduler.sweep_result("search")
        logs = scheduler.logs("search")
        over_s = max(stay.until_s or 0.0 for stay in scheduler.stays if stay.job == "beside")
        sizes = [
            (stay.from_s > over_s, len(stay.slots))
            for stay in scheduler.stays
            if stay.job == "search"
        ]
        endless = replace(
            search,
            name="endless",
            study=study(),
            num_trials=4,
            max_iterations=10**6,
            phase_iterations=None,
        )
        scheduler.submit(endless)
        while scheduler.status("endless").iteration == 0 and not scheduler.status("endless").error:
            time.sleep(0.1)
        scheduler.cancel("endless")
        scheduler.wait()
        cancelled = scheduler.status("endless").status
    states = {one.state for one in endless.study.get_trials()}
    alone_too = Tuner(spark, Slow(8, 2), sweep_data, study(), 8, 600, space=SPACE).run()
    pairs = zip(result.trials, alone_too.trials, strict=True) if result else ()
    return {
        **found,
        "sweep": [status.status, status.iteration, status.num_iterations, status.error],
        "losses": max((worst_error(a.losses, b.losses) for a, b in pairs), default=1.0),
        "best": result is not None and result.best_state is not None,
        "falls": list(status.losses) == sorted(status.losses, reverse=True),
        "during": max(size for is_after, size in sizes if not is_after),
        "after": max((size for is_after, size in sizes if is_after), default=0),
        "logs": logs,
        "cancelled": [cancelled, states == {optuna.trial.TrialState.FAIL}],
    }


def straggles(spark: Any) -> dict[str, Any]:
    """A job whose third accelerator is slow."""
    slow = job("slow", Straggling("first"), 400, max_accelerators=3)
    with Scheduler(spark, interval_s=1.0) as scheduler:
        scheduler.submit(slow)
        scheduler.wait()
        metrics = scheduler.metrics("slow")
        return {
            **summary(scheduler, slow),
            "measured": {str(one): len(each) for one, each in metrics.records.items()},
            "stragglers": [str(each) for each in metrics.slowness()],
            "first": {slot.executor for slot in scheduler.runs[0].slots}
            == {slot.executor for slot in scheduler.runs[-1].slots},
        }


def killed(spark: Any) -> dict[str, Any]:
    jobs = [job("killed", Killing("killed"), 120), job("other", Model(), 60)]
    with Scheduler(spark, interval_s=1.0) as scheduler:
        for one in jobs:
            scheduler.submit(one)
        scheduler.wait()
        return {**summary(scheduler, *jobs), "flag": (WORK / "killed").exists()}


def waiting(scheduler: Scheduler, then: Any) -> dict[str, Any]:
    """What a job is like, and a thread that waits for it, when its scheduler stops."""
    scheduler.submit(job("endless", Model(), 10**6))
    while not scheduler.runs:
        time.sleep(0.1)

    def wait() -> None:
        with contextlib.suppress(RuntimeError):
            scheduler.wait()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    then()
    scheduler.stop()
    waiter.join(60)
    status = scheduler.status("endless")
    return {"status": status.status, "error": status.error, "waited": not waiter.is_alive()}


def left(spark: Any) -> dict[str, Any]:
    """A scheduler that is stopped with a job that runs."""
    folder = WORK / "checkpoint"
    found = waiting(Scheduler(spark, interval_s=1.0, checkpoint=str(folder)), lambda: None)
    return {**found, "files": sum(one.is_file() for one in folder.rglob("*"))}


def ended(spark: Any) -> dict[str, Any]:
    """An application that ends before its scheduler."""
    return waiting(Scheduler(spark, interval_s=1.0), spark.stop)


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    # Executors import torch; where that takes long, a scheduler takes restarts for too costly to grow.
    spark.sparkContext.parallelize(range(4), 4).map(lambda _: time.sleep(1)).collect()
    for scenario in (shared, straggles, swept, hangs, commands, left, killed, ended):
        began_s = time.monotonic()
        print(json.dumps({scenario.__name__: scenario(spark)}), flush=True)
        print(f"{scenario.__name__}: {time.monotonic() - began_s:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
