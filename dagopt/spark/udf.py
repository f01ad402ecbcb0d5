"""Python functions of SQL that run under a resource profile: :func:`gpu_udf`.

Spark takes a profile for ``mapInPandas`` and ``mapInArrow`` only, and only from 4.0 on. What is made
here tells dagopt's planner strategy in the JVM, which gives the operator that evaluates the function
its profile. A UDF carries the mark in the JVM's function object; a plain function, out of which Spark
makes a UDF itself, in its name, such as ``infer@gpu3`` with the number of the profile.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dagopt.errors import InputError
from dagopt.spark.bridge import call
from dagopt.spark.concurrency import is_local_mode
from dagopt.spark.devices import RESOURCE
from dagopt.spark.launch import why_no_extension
from dagopt.spark.profiles import check_profile, is_connect, java_profile, warn_local

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile

logger = logging.getLogger(__name__)

_MARKS = "org.apache.spark.sql.dagopt.GpuMark"

_SCALAR = {
    "SQL_BATCHED_UDF",
    "SQL_ARROW_BATCHED_UDF",
    "SQL_SCALAR_PANDAS_UDF",
    "SQL_SCALAR_PANDAS_ITER_UDF",
    "SQL_SCALAR_ARROW_UDF",
    "SQL_SCALAR_ARROW_ITER_UDF",
}
"""What Spark calls the kinds of UDFs that give a value for each row."""


def gpu_udf(
    function_or_udf: Any,
    profile: ResourceProfile | None,
    cpu_only: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A UDF or a function that Spark runs under a resource profile, on GPUs.

    Takes what ``pandas_udf``, ``predict_batch_udf``, ``arrow_udf`` and ``udf`` give, if it gives a
    value for each row, and is then used as before. Takes plain functions for ``applyInPandas`` and
    ``applyInArrow`` of a grouped or cogrouped DataFrame, ``mapInPandas`` and ``mapInArrow``::

        infer = dagopt.gpu_udf(predict_batch_udf(...), dagopt.gpu_profile())
        scores = frame.select(infer(decode("jpeg")))
        frame.groupBy("k").applyInPandas(dagopt.gpu_udf(train, dagopt.gpu_profile()), schema)

    The function runs in an operator of its own under the profile, with shuffles around it where they
    pay, as every GPU operator does; that of a cogrouped DataFrame without them. UDFs of one projection
    that have other profiles, or none, run apart from it, those that it is called on too: ``decode``
    above holds no GPU.

    Without dagopt in the session, and with its ``mode`` ``off`` or ``explain``, which tells the forms that
    it would get, the function runs without a profile, on CPU slots, as it does in streaming queries and
    in barrier stages, and where a UDF is called in SQL by a name that ``spark.udf.register`` gave it.

    Args:
        function_or_udf: the UDF, or the function.
        profile: what :func:`dagopt.gpu_profile` gives, or another one of yours. None, as with
            ``local[n]``, asks for nothing.
        cpu_only: the same on a CPU, a function of the same arguments or a UDF of the same kind and
            type. It runs in every task that holds no GPU.

    Raises:
        InputError: an argument is of a wrong type, or a UDF of a kind that this is not possible for.
    """
    if not callable(function_or_udf):
        kind = type(function_or_udf).__name__
        raise InputError(f"gpu_udf: function_or_udf is a {kind}, expected a function or a UDF")
    check_profile("gpu_udf", profile)
    is_udf = hasattr(function_or_udf, "evalType")
    udf: Callable[..., Any] = function_or_udf
    function = udf
    if is_udf:
        _check_kind(function_or_udf)
        function = function_or_udf.func
    if cpu_only is not None:
        on_cpu = _cpu_function(function_or_udf, cpu_only)
        _check_arguments(function, on_cpu)
        function = _either(function, on_cpu)
    context = _marking_context(profile)
    java = None if context is None or profile is None else java_profile(context, profile)
    if is_udf:
        if function is function_or_udf.func and java is None:
            return udf
        return _udf(function_or_udf, function, context, java, has_cpu_form=cpu_only is not None)
    if java is None:
        return function
    context._jsc.sc().resourceProfileManager().addResourceProfile(java)  # type: ignore[union-attr]  # noqa: SLF001
    mark = f"@gpu{java.id()}{'' if cpu_only is None else 'c'}"
    return _named(function, _name(function_or_udf) + mark)


def _check_kind(udf: Any) -> None:
    """Whether the UDF gives a value for each row; others are planned in other ways.

    Raises:
        InputError: it does not.
    """
    kind = _kind(udf)
    if kind not in _SCALAR:
        raise InputError(
            f"gpu_udf: {_name(udf)} is a UDF of kind {kind}; allowed are UDFs that give a value for"
            " each row, and plain functions for applyInPandas, applyInArrow, mapInPandas and mapInArrow"
        )


def _kind(udf: Any) -> str:
    """What Spark calls it."""
    from pyspark.sql import udf as udfs  # noqa: PLC0415  importing dagopt must not need pyspark

    module: Any = udfs  # the class itself is at home elsewhere in Spark 3.5
    names = {
        value: name
        for name, value in vars(module.PythonEvalType).items()
        if name.startswith("SQL_")
    }
    return str(names.get(udf.evalType, udf.evalType))


def _cpu_function(gpu: Any, cpu_only: Any) -> Callable[..., Any]:
    """The function of the CPU form.

    Raises:
        InputError: it is none, or not the same kind of UDF.
    """
    if not callable(cpu_only):
        raise InputError(
            f"gpu_udf: cpu_only is a {type(cpu_only).__name__}, expected a function or a UDF"
        )
    if not hasattr(cpu_only, "evalType"):
        return cpu_only  # type: ignore[no-any-return]
    kinds = [
        f"{_kind(one)} {one.returnType}" if hasattr(one, "evalType") else "no UDF"
        for one in (gpu, cpu_only)
    ]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"gpu_udf: cpu_only is a UDF of kind and type {kinds[1]}, expected a function, or one like"
            f" the other: {kinds[0]}"
        )
    function: Callable[..., Any] = cpu_only.func
    return function


def _check_arguments(gpu: Callable[..., Any], cpu_only: Callable[..., Any]) -> None:
    """Whether the CPU form can be called as the other one is.

    Raises:
        InputError: it cannot.
    """
    try:
        signatures = inspect.signature(gpu), inspect.signature(cpu_only)
    except ValueError:  # some that are written in C tell nothing
        return
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        one
        for one in signatures[0].parameters.values()
        if one.kind in positional and one.default is inspect.Parameter.empty
    ]
    try:
        signatures[1].bind(*needed)
    except TypeError:
        raise InputError(
            f"gpu_udf: cpu_only {_name(cpu_only)}{signatures[1]} cannot be called as"
            f" {_name(gpu)}{signatures[0]} is"
        ) from None


def _marking_context(profile: Any) -> Any | None:
    """The SparkContext in which a mark means something; None where the plan is to be Spark's own."""
    if profile is None:
        return None
    if is_connect():
        logger.warning("dagopt: gpu_udf gives no profile in a Spark Connect client")
        return None
    from pyspark import SparkContext  # noqa: PLC0415

    context = SparkContext._active_spark_context  # noqa: SLF001  getOrCreate would start one
    if context is None:
        raise InputError("gpu_udf: expected a running Spark session, got none")
    if is_local_mode(str(context.master)):
        warn_local(str(context.master))
        return None
    missing = why_no_extension(context.getConf().get("spark.sql.extensions"))
    if not missing:
        return context
    _warn_no_profile(missing)
    return None


@functools.cache
def _warn_no_profile(why: str) -> None:
    """Once, for it is the same for all functions of the session."""
    logger.warning(
        "dagopt: gpu_udf gives no profile in this session, so functions run on CPU slots: %s", why
    )


def _either(gpu: Callable[..., Any], cpu_only: Callable[..., Any]) -> Callable[..., Any]:
    """One function or the other, as the task holds a GPU or not."""
    resource = RESOURCE

    def either(*arguments: Any, **named: Any) -> Any:
        from pyspark import TaskContext  # noqa: PLC0415  executors need no dagopt for this

        context = TaskContext.get()
        has_gpu = context is not None and resource in context.resources()
        return (gpu if has_gpu else cpu_only)(*arguments, **named)

    return _like(either, gpu, _name(gpu))


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function under another name."""

    def marked(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return _like(marked, function, name)


def _like(made: Any, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that says of itself what ``function`` does, since Spark looks at its arguments."""
    plain = [
        each for each in functools.WRAPPER_ASSIGNMENTS if each not in {"__name__", "__module__"}
    ]
    functools.update_wrapper(made, function, assigned=plain)
    made.__signature__ = inspect.signature(function)
    made.__name__ = name
    # Executors get it by value: in its module they may find another function of its name.
    made.__qualname__ = f"gpu_udf.<locals>.{name}"
    wrapped: Callable[..., Any] = made
    return wrapped


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _udf(
    udf: Any, function: Callable[..., Any], context: Any, profile: Any, *, has_cpu_form: bool
) -> Callable[..., Any]:
    """The UDF with another function and, if there is a profile, with the mark."""
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415

    class GpuUserDefinedFunction(UserDefinedFunction):
        def _create_judf(self, *arguments: Any, **named: Any) -> Any:
            made = super()._create_judf(*arguments, **named)
            return (
                made
                if profile is None
                else call(context, _MARKS, "mark", made, profile, has_cpu_form)
            )

    source = getattr(udf, "_unwrapped", udf)
    made = GpuUserDefinedFunction(
        function,
        returnType=source._returnType,  # noqa: SLF001
        name=source._name,  # noqa: SLF001
        evalType=source.evalType,
        deterministic=source.deterministic,
    )
    wrapped: Callable[..., Any] = made._wrapped()  # noqa: SLF001
    return wrapped
