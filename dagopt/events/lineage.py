"""Which stage's map output a stage read, told by RDDs.

``Parent IDs`` of a stage is no answer: with adaptive execution each query stage is a job of its
own, and its parents get fresh stage ids that never run. But the RDDs keep their ids. A stage that
reads a shuffle has an RDD whose parent is not of the stage; the stage that wrote the shuffle is
one that ends in that parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dagopt.events.spark_events import StageInfo

StageKey: TypeAlias = tuple[int, int]


def parent_stage_ids(
    stages: Mapping[StageKey, StageInfo], writers: Collection[StageKey]
) -> dict[StageKey, tuple[int, ...]]:
    """For each stage attempt, the sorted ids of stages whose map output it read.

    Args:
        stages: what is known of each stage attempt that ran, by (stage id, attempt).
        writers: those that left map output. Where a result stage computed the same RDD, they
            are the parents and it is not.
    """
    ending_in: dict[int, list[StageKey]] = {}
    for key in sorted(stages):
        for rdd_id in _last_rdds(stages[key]):
            ending_in.setdefault(rdd_id, []).append(key)
    ran = {stage_id for stage_id, _ in stages}
    return {key: _parents(key, stages, ending_in, writers, ran) for key in stages}


# Private functions


def _parents(
    key: StageKey,
    stages: Mapping[StageKey, StageInfo],
    ending_in: Mapping[int, list[StageKey]],
    writers: Collection[StageKey],
    ran: Collection[int],
) -> tuple[int, ...]:
    info = stages[key]
    own, parents = _rdd_ids(info), _rdd_parents(info)
    if parents is None:  # before Spark 1.4
        return tuple(sorted(set(info.parent_ids or ()) & set(ran) - {key[0]}))
    found: set[int] = set()
    for rdd_id in parents - own:
        candidates = [
            other
            for other in ending_in.get(rdd_id, ())
            if other[0] != key[0] and _started_before(stages[other], info)
        ]
        wrote = [other for other in candidates if other in writers]
        found.update(stage_id for stage_id, _ in wrote or candidates)
    return tuple(sorted(found))


def _started_before(writer: StageInfo, reader: StageInfo) -> bool:
    """Whether the writer started before the reader; yes where the log does not say.

    A later one wrote the same map output again, after it was lost.
    """
    if writer.submitted_ms is None or reader.submitted_ms is None:
        return True
    return writer.submitted_ms <= reader.submitted_ms


def _last_rdds(info: StageInfo) -> set[int]:
    """RDDs of the stage that no other RDD of it is made from: normally one."""
    return _rdd_ids(info) - (_rdd_parents(info) or set())


def _rdd_ids(info: StageInfo) -> set[int]:
    return {rdd.rdd_id for rdd in info.rdds or () if rdd.rdd_id is not None}


def _rdd_parents(info: StageInfo) -> set[int] | None:
    """Parents of all RDDs of the stage; None where this Spark does not log them."""
    known = [rdd.parent_ids for rdd in info.rdds or () if rdd.parent_ids is not None]
    return {parent for parents in known for parent in parents} if known else None
