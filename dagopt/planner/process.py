"""The planner's loop: lines of the JVM in, instructions out.

The process has one thread and no timer: delays run in the JVM. What goes wrong with one task set
gives that task set back to Spark; what goes wrong with the protocol ends the process, and the JVM
then releases everything.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable
from typing import IO

import msgspec

from dagopt.controller.application import ApplicationController
from dagopt.errors import BridgeError, InputError
from dagopt.model.wire import (
    FromJvm,
    FromPlanner,
    Hello,
    Ping,
    Plan,
    Pong,
    Ready,
    Report,
    ReportRequest,
    TaskSetEnded,
    TaskSetSubmitted,
)
from dagopt.model.wire_gpu import Form, GpuStage, SliceDone, Slices, Steps
from dagopt.model.wire_message import PROTOCOL_VERSION
from dagopt.planner.report_body import counts, no_report, report_body

_LOG = logging.getLogger(__name__)

_DECODER: msgspec.json.Decoder[FromJvm] = msgspec.json.Decoder(FromJvm)
_ENCODER = msgspec.json.Encoder()

MAX_REPORT_BYTES = 32 * 1024 * 1024
"""The JVM takes a line of more than twice that for nonsense, which ends everything."""

ControllerFactory = Callable[[Hello], ApplicationController]
"""Makes the controller when the first message has told the configuration."""


def run(
    lines: Iterable[bytes],
    out: IO[bytes],
    *,
    clock: Callable[[], float],
    make_controller: ControllerFactory,
    decision_log: Callable[[Hello], IO[bytes] | None],
) -> None:
    """Answer messages until the input ends.

    Args:
        lines: messages of the JVM, one a line; the first is a ``hello``.
        out: where instructions go; flushed after the answer to each message.
        clock: epoch seconds.
        make_controller: called once.
        decision_log: opens the file that every decision, and what GPUs did, is appended to, if there is one.

    Raises:
        BridgeError: a line is not a message of this protocol version.
    """
    controller: ApplicationController | None = None
    log: IO[bytes] | None = None
    num_logged: tuple[int, ...] = (0, 0, 0, 0)
    num_counted = num_logged
    for line in lines:
        message = decode(line)
        answers: list[FromPlanner]
        if isinstance(message, Hello):
            controller, log = make_controller(message), decision_log(message)
            answers = [Ready()]
        elif controller is None:
            raise BridgeError(f"expected hello first, got {type(message).__name__}")
        else:
            answers = answer(controller, message, clock())
            has_ended = isinstance(message, (TaskSetEnded, SliceDone))
            if has_ended or controller.num_entries != num_counted:
                answers = [*answers, counts(controller)]
                num_counted = controller.num_entries
        if answers:
            out.write(b"".join(_encoded(one) + b"\n" for one in answers))
            out.flush()
        if log is not None and controller.num_entries != num_logged:
            entries = controller.new_entries(num_logged)
            num_logged = controller.num_entries
            try:
                log.write(b"".join(_ENCODER.encode(entry) + b"\n" for entry in entries))
                log.flush()
            except OSError as error:
                _LOG.warning("the decision log ends here: %s", error)
                log = None


def calm_gc() -> None:
    """Let the garbage collector look at what was loaded never again, and at the rest less often.

    A plan of 100,000 tasks makes many objects and no cycles; a fifth of its time went into that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


def decode(line: bytes) -> FromJvm:
    """One message.

    Raises:
        BridgeError: it is not JSON, not a known message, or of another protocol version.
    """
    try:
        message = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        _check_version(_version(line))
        raise BridgeError(f"not a message of the JVM: {error}: {line[:200]!r}") from error
    _check_version(message.v)
    return message


def answer(controller: ApplicationController, message: FromJvm, now_s: float) -> list[FromPlanner]:
    """Instructions that answer one message."""
    if isinstance(message, Ping):
        return [Pong(seq=message.seq)]
    if isinstance(message, ReportRequest):
        return [_report(controller, message, now_s)]
    try:
        return controller.step(message, now_s)
    except InputError as error:
        _LOG.warning("%s", error)
        reason = f"not understood: {error}"
        if isinstance(message, GpuStage):
            return [Form(id=message.id, slices=[message.num_partitions], reason=reason)]
        if isinstance(message, Slices):
            return [Steps(id=message.id, end=True)]
        if not isinstance(message, TaskSetSubmitted):
            return []
        return [Plan(stage=message.stage, attempt=message.attempt, action="pass", reason=reason)]


# Private functions


class _Versioned(msgspec.Struct):
    v: int = PROTOCOL_VERSION


def _version(line: bytes) -> int:
    """Of a line that is no message of ours: one of another build may lack or have what ours does not."""
    try:
        return msgspec.json.decode(line, type=_Versioned).v
    except msgspec.MsgspecError:
        return PROTOCOL_VERSION


def _check_version(version: int) -> None:
    if version != PROTOCOL_VERSION:
        raise BridgeError(
            f"protocol version {version}, expected {PROTOCOL_VERSION}: dagopt's jar and its Python"
            " package are of different builds"
        )


def _report(controller: ApplicationController, asked: ReportRequest, now_s: float) -> Report:
    """The report; one that cannot be made is no reason to stop planning."""
    try:
        return Report(id=asked.id, body=report_body(controller, asked, now_s))
    except Exception as error:  # noqa: BLE001  whatever it is, plans do not need it
        return _no_report(asked.id, error)


def _encoded(message: FromPlanner) -> bytes:
    """The message's line, likewise."""
    if not isinstance(message, Report):
        return _ENCODER.encode(message)
    try:
        line = _ENCODER.encode(message)
    except Exception as error:  # noqa: BLE001  as above
        return _ENCODER.encode(_no_report(message.id, error))
    if len(line) > MAX_REPORT_BYTES:
        too_large = InputError(f"a report of more than {MAX_REPORT_BYTES >> 20} MB")
        return _ENCODER.encode(_no_report(message.id, too_large))
    return line


def _no_report(number: int, error: Exception) -> Report:
    _LOG.warning("no report: %r", error)
    return Report(id=number, body=no_report(error))
