"""What one run took, from its answer, the kernels' own record, and Spark's event log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of one case in one mode."""

    case: str
    mode: str
    form: str
    """What ran: ``fused``, ``split before``, ``sliced in 4``; after ``probe`` what came behind it."""

    elapsed_s: float
    """Seconds from the action to its rows, planning included."""

    gpu_allocated_s: float | None
    """Seconds that tasks held the GPU, from their launch to their end; None in Ray."""

    gpu_busy_s: float
    """Seconds that kernels ran."""

    predicted_s: float | None
    """What dagopt said it would take: with a first slice, that one's seconds and what was predicted
    behind it. None in other modes, and where dagopt could not predict."""

    def row(self) -> dict[str, object]:
        """The fields of ``gpu.json``."""
        return {
            "case": self.case,
            "mode": self.mode,
            "form": self.form,
            "elapsed_s": round(self.elapsed_s, 3),
            "gpu_allocated_s": _rounded(self.gpu_allocated_s),
            "gpu_busy_s": round(self.gpu_busy_s, 3),
            "predicted_s": _rounded(self.predicted_s),
        }


def form_of(decisions: list[dict[str, Any]]) -> str:
    """The forms of a run's GPU stages, in words."""
    return ", ".join(_form(decision) for decision in decisions)


def _form(decision: dict[str, Any]) -> str:
    form = str(decision["form"])
    if form == "sliced":
        return f"sliced in {len(decision['slices'])}"
    if form == "split":
        sides = [side for side in ("before", "after") if decision[f"boundary_{side}"]]
        return f"split {' and '.join(sides)}"
    return form


def predicted_s(decisions: list[dict[str, Any]]) -> float | None:
    """Seconds that the run was predicted to take when the last of its forms was chosen."""
    if not decisions or decisions[-1]["predicted_s"] is None:
        return None
    waited_s = decisions[-1]["time_s"] - decisions[0]["time_s"]
    return float(waited_s + decisions[-1]["predicted_s"])


def gpu_allocated_s(log: Path) -> dict[str, float]:
    """Seconds that tasks of stages with a resource profile of their own took, by job group.

    Tasks that failed count too: they held the GPU.
    """
    group_of: dict[int, str] = {}
    seconds: dict[str, float] = {}
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageSubmitted":
                info = event["Stage Info"]
                if info["Resource Profile Id"] != 0:
                    group = event.get("Properties", {}).get("spark.jobGroup.id", "")
                    group_of[info["Stage ID"]] = group
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in group_of:
                info = event["Task Info"]
                held_s = (info["Finish Time"] - info["Launch Time"]) / 1e3
                group = group_of[event["Stage ID"]]
                seconds[group] = seconds.get(group, 0.0) + held_s
    return seconds


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
