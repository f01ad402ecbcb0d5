from __future__ import annotations

from dagopt.events.lineage import parent_stage_ids
from dagopt.events.spark_events import RddInfo, StageInfo


def rdd(rdd_id: int, *parents: int) -> RddInfo:
    return RddInfo(rdd_id=rdd_id, parent_ids=list(parents))


def test_a_stage_reads_what_ends_in_the_parent_of_its_rdds() -> None:
    stages = {
        (0, 0): StageInfo(rdds=[rdd(0), rdd(1, 0)]),
        (1, 0): StageInfo(rdds=[rdd(2), rdd(3, 2)]),
        # Spark says that 4 and 5 are its parents: skipped stages, which are 0 and 1 again.
        (6, 0): StageInfo(rdds=[rdd(4, 1), rdd(5, 3), rdd(6, 4, 5)], parent_ids=[4, 5]),
    }
    assert parent_stage_ids(stages, {(0, 0), (1, 0)}) == {(0, 0): (), (1, 0): (), (6, 0): (0, 1)}


def test_a_result_stage_of_the_same_rdd_is_no_parent() -> None:
    stages = {
        (0, 0): StageInfo(rdds=[rdd(0)]),  # rdd.count()
        (1, 0): StageInfo(rdds=[rdd(0)]),  # the map side of rdd.reduceByKey()
        (2, 0): StageInfo(rdds=[rdd(1, 0)]),
    }
    assert parent_stage_ids(stages, {(1, 0)})[2, 0] == (1,)
    assert parent_stage_ids(stages, set())[2, 0] == (0, 1)  # where nobody knows who wrote


def test_a_stage_that_wrote_the_same_again_later_is_no_parent() -> None:
    stages = {
        (0, 0): StageInfo(rdds=[rdd(0)], submitted_ms=1),
        (1, 0): StageInfo(rdds=[rdd(1, 0)], submitted_ms=2),
        (2, 1): StageInfo(rdds=[rdd(0)], submitted_ms=3),
        (3, 1): StageInfo(rdds=[rdd(1, 0)], submitted_ms=4),
    }
    parents = parent_stage_ids(stages, {(0, 0), (2, 1)})
    assert (parents[1, 0], parents[3, 1]) == ((0,), (0, 2))


def test_without_parents_of_rdds_the_stages_parents_that_ran_count() -> None:
    stages = {
        (0, 0): StageInfo(rdds=[RddInfo(rdd_id=0)]),
        (2, 0): StageInfo(rdds=[RddInfo(rdd_id=1)], parent_ids=[0, 1]),
        (3, 0): StageInfo(),
    }
    assert parent_stage_ids(stages, set()) == {(0, 0): (), (2, 0): (0,), (3, 0): ()}
