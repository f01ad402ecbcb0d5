"""Faults of sweeps under a scheduler: prints a JSON object of what each scenario did."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from dagopt.cli.main import main as command
from dagopt.train import Scheduler, SweepJob
from dagopt.tune import Tuner
from jobs.sweep_models import Logistic
from jobs.train_jobs import worst_error
from tests.spark import train_scenarios
from tests.spark.train_scenarios import SPACE, Killing, Model, Slow, is_task, job, study, sweep_data

cloudpickle.register_pickle_by_value(train_scenarios)  # type: ignore[no-untyped-call]
WORK = Path(sys.argv[1])


@dataclass(frozen=True)
class Bad(Slow):
    """Does something bad in a stacked step: always, or once, where a file says that it did."""

    what: str = ""
    flag: Path | None = None

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> Any:
        if is_task() and np.size(params["lr"]) > 1:
            with contextlib.suppress(FileExistsError):
                if self.flag is not None:
                    self.flag.touch(exist_ok=False)
                self.bad()
        return super().step(state, batch, params, xp)

    def bad(self) -> None:
        import os
        import signal

        if self.what == "hangs":
            time.sleep(1000)
        if self.what == "leaves":
            os.kill(os.getpid(), signal.SIGKILL)
        Killing.bad(None)  # type: ignore[arg-type]


class Raising(Logistic):
    """A trial with a high rate raises."""

    def init(self, params: Any, xp: Any) -> Any:
        state = super().init(params, xp)
        return {**state, "bad": xp.full((1, 1), float(params["lr"] > 0.03), dtype="float32")}

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> Any:
        time.sleep(0.002 * np.size(params["lr"]))
        if (np.asarray(state["bad"]) > 0).any():
            raise ValueError("no such rate")
        return super().step(state, batch, params, xp)


def bad(what: str, *, once: bool = True) -> Bad:
    return Bad(8, 2, what=what, flag=WORK / what if once else None)


def search(name: str, trainable: Any, **fields: Any) -> SweepJob:
    known: dict[str, Any] = {
        "name": name,
        "trainable": trainable,
        "data": sweep_data,
        "study": study(),
        "space": SPACE,
        "num_trials": 6,
        "max_iterations": 200,
        "phase_iterations": 50,
    }
    return SweepJob(**{**known, **fields})


@functools.cache
def alone(spark: Any, trainable: Any) -> Any:
    """What Tuner finds by itself."""
    one = search("alone", trainable)
    return Tuner(
        spark,
        one.trainable,
        sweep_data,
        study(),
        one.num_trials,
        one.max_iterations,
        space=SPACE,
        phase_iterations=one.phase_iterations,
    ).run()


def summary(spark: Any, scheduler: Scheduler, sweep: SweepJob, trainable: Any) -> dict[str, Any]:
    status, result = scheduler.status(sweep.name), scheduler.sweep_result(sweep.name)
    found: dict[str, Any] = {
        "status": status.status,
        "iteration": status.iteration,
        "restarts": status.num_restarts,
        "error": status.error,
        "logs": scheduler.logs(sweep.name),
    }
    if result is not None:
        other = alone(spark, trainable or sweep.trainable)
        found["losses"] = max(
            worst_error(a.losses, b.losses)
            for a, b in zip(result.trials, other.trials, strict=True)
            if b.losses
        )
        found["statuses"] = sorted(one.status for one in result.trials)
        found["as alone"] = [one.status for one in result.trials] == [
            one.status for one in other.trials
        ]
    return found


def beside(spark: Any, sweep: SweepJob, trainable: Any = None) -> dict[str, Any]:
    """A sweep that has a fault, a training beside it, and a job that gets all accelerators afterwards."""
    training = job("beside", Model(), 150)
    with Scheduler(spark, interval_s=1.0) as scheduler:
        scheduler.submit(sweep, training)
        has_ended = scheduler.wait(240)
        found = {
            "ended": has_ended,
            "sweep": summary(spark, scheduler, sweep, trainable),
            **train_scenarios.summary(scheduler, training),
        }
        if has_ended:
            last = job("last", Model(), 200)
            scheduler.submit(last)
            scheduler.wait(120)
            found["last"] = train_scenarios.summary(scheduler, last)
    return found


def lost(spark: Any) -> dict[str, Any]:
    """An executor is killed by a trial's step."""
    return beside(spark, search("killed", bad("kills")), Slow(8, 2))


def leaves(spark: Any) -> dict[str, Any]:
    """A trial's step kills its Python worker, once."""
    return beside(spark, search("leaves", bad("leaves")), Slow(8, 2))


def always_leaves(spark: Any) -> dict[str, Any]:
    return beside(spark, search("always", bad("leaves", once=False), max_restarts=1))


def hangs(spark: Any) -> dict[str, Any]:
    sweep = search("hangs", bad("hangs"), deadline_s=5.0)
    return beside(spark, sweep, Slow(8, 2))


def raises(spark: Any) -> dict[str, Any]:
    return beside(spark, search("raises", Raising(8, 2)))


FILE = """
import time
import numpy as np
import optuna
from dagopt.train import SweepJob, TrainJob


class Tiny:
    num_examples = 10

    def init(self, seed):
        return {"w": np.zeros(1)}

    def batch(self, indices):
        return indices

    def gradients(self, state, batch):
        return 1.0, {"w": np.ones(1)}

    def update(self, state, gradients, iteration):
        pass


class Trial:
    def init(self, params, xp):
        return {"w": xp.zeros((1, 1))}

    def step(self, state, batch, params, xp):
        time.sleep(0.002)
        return {"loss": abs(params["lr"])}


def data(params):
    return [np.ones(3)]


space = {"lr": optuna.distributions.FloatDistribution(0.1, 1.0)}


def sweep(name, **fields):
    known = dict(trainable=Trial(), data=data, space=space, num_trials=3, max_iterations=20)
    return SweepJob(name=name, **{**known, **fields})
"""

TINY = "training = TrainJob(name='{}', training=Tiny(), num_iterations=4, global_batch=12)\n"


def commands(spark: Any) -> dict[str, Any]:
    spool, folder, file = str(WORK / "spool"), WORK / "checkpoint", WORK / "job.py"

    def run(*arguments: str) -> list[Any]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command(["train", *arguments, "--spool", spool])
        return [code, out.getvalue(), err.getvalue()]

    def submit(*lines: str) -> list[Any]:
        file.write_text(FILE + "\n".join(lines))
        return run("submit", str(file))

    def files() -> list[str]:
        return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())

    found: dict[str, Any] = {}
    with Scheduler(spark, interval_s=1.0, spool=spool, checkpoint=str(folder)) as scheduler:
        found["sweep"] = submit("job = sweep('one')")
        found["both"] = submit("job = sweep('two')", TINY.format("tiny"))
        for name, bad in (
            ("space", "space=None"),
            ("memory", "memory='much'"),
            ("trainable", "trainable=None"),
            ("pickle", "trainable=LOCKED"),
            ("data pickle", "data=LOCKED.step"),
            ("many", "max_accelerators=9"),
            ("batch", "batch_size=0"),
            ("callback", "callback=3"),
        ):
            found[f"bad {name}"] = submit(
                "import threading",
                "LOCKED = Trial()",
                "LOCKED.lock = threading.Lock()",
                TINY.format(f"with-{name.replace(' ', '-')}"),
                f"job = sweep('bad-{name.replace(' ', '-')}', {bad})",
            )
        found["names"] = [one.name for one in scheduler.jobs()]
        found["ended"] = scheduler.wait(120)
        found["list"] = json.loads(run("list", "--json")[1])
        found["table"] = run("list")
        found["logs"] = run("logs", "one")
        found["done files"] = files()
        found["endless"] = submit("job = sweep('endless', max_iterations=10**6, num_trials=4)")
        while scheduler.status("endless").iteration < 20:
            time.sleep(0.1)
        while scheduler.status("endless").num_accelerators == 0:
            time.sleep(0.02)
        found["running"] = scheduler.status("endless").status
        began_s = time.monotonic()
        found["cancel"] = run("cancel", "endless")
        while scheduler.status("endless").num_accelerators:
            time.sleep(0.02)
        found["freed_s"] = time.monotonic() - began_s
        found["freed"] = scheduler.wait(60)
        after = job("after", Model(), 300)
        scheduler.submit(after)
        scheduler.wait(120)
        found["after"] = train_scenarios.summary(scheduler, after)
        found["cancelled"] = scheduler.status("endless").status
        found["cancelled files"] = [one for one in files() if "/endless/" in one]
    found["left files"] = files()
    return found


def ended(spark: Any) -> dict[str, Any]:
    """An application that ends before the scheduler of a sweep and a training does."""
    scheduler = Scheduler(spark, interval_s=1.0)
    endless = search("sweep", Slow(8, 2), max_iterations=10**6, phase_iterations=None)
    scheduler.submit(replace(endless), job("training", Model(), 10**6))
    scheduler.submit(replace(endless, name="waits", study=study()))
    while not all(scheduler.status(name).num_accelerators for name in ("sweep", "training")):
        time.sleep(0.02)
    spark.stop()
    why = ""
    try:
        scheduler.wait(60)
    except RuntimeError as error:
        why = f"{error}: {error.__cause__}"
    try:
        scheduler.submit(job("late", Model()))
        late = ""
    except Exception as error:  # noqa: BLE001  what it is is asked
        late = f"{type(error).__name__}: {error}"
    scheduler.stop()
    return {
        "why": why,
        "late": late,
        "jobs": {one.name: [one.status, one.error] for one in scheduler.jobs()},
        "logs": {one.name: scheduler.logs(one.name) for one in scheduler.jobs()},
    }


SCENARIOS = (commands, raises, leaves, always_leaves, hangs, lost, ended)


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.parallelize(range(4), 4).map(lambda _: time.sleep(1)).collect()
    for scenario in SCENARIOS:
        if sys.argv[2:] and scenario.__name__ not in sys.argv[2:]:
            continue
        began_s = time.monotonic()
        print(json.dumps({scenario.__name__: scenario(spark)}), flush=True)
        print(f"{scenario.__name__}: {time.monotonic() - began_s:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
