"""What ``dagopt.gpu_udf`` makes of functions; tests/spark/test_gpu_udf.py runs them."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import dagopt
from dagopt.errors import InputError
from dagopt.spark.udf import _either, _named


def double(values: list[int], times: int = 2) -> list[int]:
    """Twice."""
    return [value * times for value in values]


def test_a_renamed_function_says_of_itself_what_the_other_does() -> None:
    named = _named(double, "double@gpu3")
    assert named.__name__ == "double@gpu3"
    assert inspect.signature(named) == inspect.signature(double)
    assert inspect.getfullargspec(named).args == ["values", "times"]
    assert named.__doc__ == "Twice."
    assert named([1, 2], times=3) == [3, 6]


def test_without_a_task_there_is_no_gpu_to_hold() -> None:
    either = _either(double, lambda values: values)
    assert either([1, 2]) == [1, 2]
    assert inspect.getfullargspec(either).args == ["values", "times"]


def test_it_is_pickled_by_value_where_its_module_has_another_of_its_name() -> None:
    from pyspark import cloudpickle

    named = _named(double, "double")
    copied = pickle.loads(cloudpickle.dumps(named))  # type: ignore[no-untyped-call]  # noqa: S301  ours
    assert copied is not double
    assert copied([4]) == [8]
    assert copied.__wrapped__ is double


def test_an_instance_that_is_called_has_a_name_too() -> None:
    class Model:
        def __call__(self, parts: Iterator[int]) -> Iterator[int]:
            return parts

    named = _named(Model(), "Model@gpu0")
    assert inspect.getfullargspec(named).args == ["parts"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((7, None), "function_or_udf is a int, expected a function or a UDF"),
        ((double, "gpu"), "profile is a str, expected a ResourceProfile"),
        ((double, None, 7), "cpu_only is a int, expected a function or a UDF"),
        (
            (double, None, lambda one, two: one + two),
            r"\(one, two\) cannot be called as double\(values",
        ),
    ],
)
def test_wrong_arguments_are_errors(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        dagopt.gpu_udf(*arguments)


def test_without_a_profile_a_function_stays_what_it_is() -> None:
    assert dagopt.gpu_udf(double, None) is double
