"""The forms that the GPU stages of a query would get: :func:`explain`."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagopt.errors import BridgeError, InputError
from dagopt.spark.bridge import call
from dagopt.spark.launch import why_no_extension
from dagopt.units import format_bytes, format_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXPLAINER = "org.apache.spark.sql.dagopt.GpuExplain"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """The GPU operators of one query, those that run first in front."""

    operators: Sequence[Mapping[str, Any]]
    """One entry an operator, as :func:`explain` lists them."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values; changing them changes no explanation."""
        copied: dict[str, Any] = json.loads(json.dumps({"operators": list(self.operators)}))
        return copied

    def __str__(self) -> str:
        if not self.operators:
            return "no GPU operator that dagopt plans"
        return "\n".join(line for shown in self.operators for line in _lines(shown))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(frame: DataFrame) -> Explanation:
    """The form that each GPU operator of ``frame`` would get if it ran now, and why. Runs no job.

    With adaptive execution it is the plan before its first stage that is explained: the number of
    partitions is that of its shuffles before any is coalesced.

    Args:
        frame: a DataFrame of a classic session.

    Returns:
        An explanation that prints as text, shows in a notebook, and whose ``to_dict()["operators"]``
        has for each operator its ``name``, ``num_partitions``, ``form`` (``fused`` as Spark would run
        it, ``split``, ``sliced``, ``shifting`` where slices may go to their CPU form, or ``probe``
        where a first slice is measured), ``slices`` (partitions of each), ``boundary_before``,
        ``boundary_after``, ``stages`` (``operators``, and ``profile``, None for CPU slots; of every
        slice alike), ``has_cpu_form`` (whether its functions came with ``cpu_only``, see
        :func:`dagopt.gpu_udf`), ``bytes_across`` the boundaries, ``predicted_s``, ``stock_s`` as Spark
        would run it (all three None where costs are not known yet), and ``reason``.

    Raises:
        InputError: ``frame`` is no DataFrame.
        BridgeError: dagopt plans no GPU operators in this session; the message says why.
    """
    if not hasattr(frame, "sparkSession"):
        raise InputError(f"explain: expected a DataFrame, got {type(frame).__name__}")
    query = getattr(frame, "_jdf", None)
    if query is None:
        raise BridgeError("explain needs a classic session, and this is a Spark Connect client")
    context = frame.sparkSession.sparkContext
    missing = why_no_extension(context.getConf().get("spark.sql.extensions"))
    if missing:
        raise BridgeError(f"dagopt plans no GPU operators in this session: {missing}")
    lines = call(context, _EXPLAINER, "lines", query.queryExecution())
    return Explanation(operators=[_with_stages(json.loads(str(line))) for line in lines])


def _with_stages(shown: dict[str, Any]) -> dict[str, Any]:
    """With the stages that a slice of it runs in."""
    profile = shown.get("profile")
    before, after = bool(shown.get("boundary_before")), bool(shown.get("boundary_after"))
    front, gpu, above = (shown.get(name) or [] for name in ("front", "operators", "above"))
    stages = [{"operators": front, "profile": None}] if before else []
    stages.append(
        {
            "operators": [*([] if before else front), *gpu, *([] if after else above)],
            "profile": profile,
        }
    )
    if after:
        stages.append({"operators": above, "profile": None})
    return {**shown, "stages": stages}


def _lines(shown: Mapping[str, Any]) -> list[str]:
    lines = [_head(shown)]
    for stage in shown["stages"]:
        where = f"a task with {stage['profile']}" if stage["profile"] else "on CPU slots"
        lines.append(f"  stage, {where}: {', '.join(stage['operators']) or 'reads on'}")
    predicted_s, stock_s = shown.get("predicted_s"), shown.get("stock_s")
    if predicted_s is not None and stock_s is not None:
        across = format_bytes(shown.get("bytes_across") or 0)
        lines.append(
            f"  predicted {format_s(predicted_s)}, Spark alone {format_s(stock_s)},"
            f" {across} across boundaries"
        )
    return [*lines, f"  {shown.get('reason')}"]


def _head(shown: Mapping[str, Any]) -> str:
    count = shown.get("num_partitions")
    parts = [f"{shown.get('name')} of {'?' if count is None else count} partitions"]
    sides = [side for side in ("before", "after") if shown.get(f"boundary_{side}")]
    parts.append(f"boundary {' and '.join(sides)}" if sides else "no boundary")
    slices = shown.get("slices") or []
    if shown.get("ask_again"):
        parts.append(f"{slices[0]} partitions first, to measure them; then the rest is decided")
    elif len(slices) > 1:
        parts.append(f"{len(slices)} slices of {min(slices)} to {max(slices)}")
    if shown.get("form") == "shifting":
        parts.append("which go to their CPU form where that ends sooner")
    return ", ".join(parts)
