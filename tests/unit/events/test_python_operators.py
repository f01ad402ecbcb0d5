from __future__ import annotations

from dagopt.events.python_operators import PythonOperator, python_operators
from dagopt.events.spark_events import Accumulable

NAMES = (
    "data sent to Python workers",
    "data returned from Python workers",
    "time to start Python workers",
    "time to execute Python code",
    "number of output rows",
)


def of_operator(first: int, values: tuple[object, ...]) -> list[Accumulable]:
    return [
        Accumulable(number=first + at, name=name, value=value)
        for at, (name, value) in enumerate(zip(NAMES, values, strict=True))
    ]


def test_operators_are_told_apart_by_the_numbers_of_their_metrics() -> None:
    below = of_operator(10, ("100", "200", "9", "3000", "7"))
    above = of_operator(20, ("200", "50", "9", "4500", "5"))
    others = [
        Accumulable(number=5, name="number of output rows", value="1000"),
        Accumulable(number=17, name="number of output rows", value="2000"),
        Accumulable(number=30, name="mine", value=[1, 2]),
        Accumulable(name="data sent to Python workers", value="1"),
    ]
    assert python_operators([*above, *others, *below]) == (
        PythonOperator(code_s=3.0, sent_bytes=100.0, returned_bytes=200.0, output_rows=7.0),
        PythonOperator(code_s=4.5, sent_bytes=200.0, returned_bytes=50.0, output_rows=5.0),
    )


def test_what_an_older_spark_does_not_tell_is_nan() -> None:
    (found,) = python_operators(of_operator(1, ("100", "x", "0", None, [3])))
    assert found.sent_bytes == 100.0
    assert found.code_s != found.code_s
    assert found.returned_bytes != found.returned_bytes
    assert found.output_rows != found.output_rows


def test_without_python_there_are_none() -> None:
    assert python_operators([Accumulable(number=1, name="shuffle write time", value="3")]) == ()
