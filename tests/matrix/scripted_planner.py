"""A planner for tests: answers by a fixed policy and writes down every line that comes and goes.

    python scripted_planner.py TRACE POLICY [KEY=VALUE ...]

TRACE is a file of JSON lines: ``{"at_ms", "way": "in" | "out", "message"}``. Policies:

* ``pass``, ``reverse``: put everything back, in Spark's order or from the last task to the first
* ``group``: groups of ``size`` tasks, ``delay_ms`` apart; with ``pin=N`` every Nth group goes to one executor, to
  each in turn; with ``raise=N`` at N tasks a core
  and, with ``from=N``, holding only task sets of at least N tasks
* each of these cuts GPU stages, with ``slice=N``, into slices of N partitions, and with ``limit=N`` lets N of
  their CPU tasks be active before one of a later slice is
* ``stuck``: launches the first group and then nothing more
* ``deaf``: never reads; ``mute``: never says a word; ``silent``: says ``ready`` and no more
* ``slow``: pongs, but plans ``late_ms`` after the question
* ``nonsense``: answers a task set with ``answer`` (default: no JSON)
* ``die``: exits when the first task set comes; ``die_held`` after it has launched the first group
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Planner:
    """Reads stdin to its end."""

    def __init__(self, trace: Path, policy: str, options: dict[str, str]) -> None:
        self.trace = trace.open("a", encoding="utf-8", buffering=1)
        self.policy = policy
        self.options = options
        self.executors: list[str] = []
        self.lock = threading.Lock()

    def number(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))

    def note(self, way: str, message: Any) -> None:
        at_ms = time.time() * 1000
        self.trace.write(json.dumps({"at_ms": at_ms, "way": way, "message": message}) + "\n")

    def say(self, kind: str, **fields: Any) -> None:
        self.write(json.dumps({"v": 2, "type": kind, **fields}))

    def write(self, line: str) -> None:
        with self.lock:
            self.note("out", line)
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def run(self) -> None:
        if self.policy == "deaf":
            self.say("ready")
            time.sleep(3600)
        if self.policy != "mute":
            self.say("ready")
        for line in sys.stdin:
            message = json.loads(line)
            with self.lock:
                self.note("in", message)
            if self.policy not in {"mute", "silent"}:
                self.answer(message)

    def answer(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "ping":
            self.say("pong", seq=message["seq"])
        elif kind == "report":
            self.say("report", id=message["id"], body={"policy": self.policy})
        elif kind == "executor_added":
            self.executors.append(message["executor"])
            if "from" in self.options:
                self.say("hold_from", num_tasks=self.number("from", 0))
        elif kind == "executor_removed":
            self.executors.remove(message["executor"])
        elif kind == "task_set":
            self.task_set(message)
        elif kind == "gpu_stage":
            self.gpu_stage(message)

    def task_set(self, message: dict[str, Any]) -> None:
        key = {"stage": message["stage"], "attempt": message["attempt"]}
        if self.policy == "die":
            sys.exit(3)
        if self.policy == "shout":
            sys.stderr.write("x" * 20000)
            sys.exit(3)
        if self.policy == "nonsense":
            self.write(
                self.options.get("answer", "so long").replace("STAGE", str(message["stage"]))
            )
        elif self.policy == "slow":
            late_s = self.number("late_ms", 2000) / 1000
            threading.Timer(late_s, self.plan, [key, "pass"]).start()
        elif self.policy == "pass":
            self.plan(key, "pass")
        elif self.policy == "reverse":
            self.plan(key, "order", list(reversed(range(message["num_tasks"]))))
        else:
            self.groups(key, message["num_tasks"])

    def gpu_stage(self, message: dict[str, Any]) -> None:
        count = message["num_partitions"]
        size = self.number("slice", count)
        self.say(
            "form",
            id=message["id"],
            slices=[min(size, count - first) for first in range(0, count, size)],
            boundary_before=True,
            boundary_after=True,
            ask_again=False,
            max_cpu_tasks=self.number("limit", 0),
        )

    def plan(self, key: dict[str, int], action: str, order: list[int] | None = None) -> None:
        self.say(
            "plan",
            **key,
            action=action,
            tasks_per_core=self.number("raise", 1),
            order=order,
            reason="as the test says",
        )

    def groups(self, key: dict[str, int], num_tasks: int) -> None:
        self.plan(key, "group")
        size = self.number("size", 2)
        for group, first in enumerate(range(0, num_tasks, size)):
            if group == 1 and self.policy == "stuck":
                return
            if group == 1 and self.policy == "die_held":
                sys.exit(3)
            every = self.number("pin", 0)
            executor = None
            if every and self.executors and group % every == 0:
                executor = sorted(self.executors)[group // every % len(self.executors)]
            self.say(
                "launch",
                **key,
                group=group,
                tasks=list(range(first, min(first + size, num_tasks))),
                executor=executor,
                delay_ms=group * self.number("delay_ms", 500),
            )


if __name__ == "__main__":
    pairs = [argument.split("=", 1) for argument in sys.argv[3:]]
    Planner(Path(sys.argv[1]), sys.argv[2], dict(pairs)).run()
