"""One event log, read as a stream of events or as the trace of its application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagopt.errors import InputError
from dagopt.events.fold import TraceFold
from dagopt.events.log_files import EventLog, find_event_logs
from dagopt.events.log_stream import StreamEnd, read_lines
from dagopt.events.spark_events import Event, LineError, decode_line, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagopt.events.log_paths import LogPath
    from dagopt.events.trace import ApplicationTrace

# A file that begins with this many lines and no event among them is something else.
_MAX_LINES_BEFORE_EVENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHealth:
    """What there was in a log besides the events that were used."""

    num_lines: int
    """Lines that are not empty, the broken ones included."""

    num_events: int
    """Events that dagopt uses."""

    num_skipped: int
    """Events that dagopt does not need or know."""

    num_broken: int
    """Lines that are no event: damaged, cut, or with a field of another type than Spark's."""

    num_replaced: int
    """Lines read after bytes that are not UTF-8 were replaced."""

    problems: tuple[str, ...]
    """The first broken line of each file, and how a file broke off, each with its place."""

    is_cut: bool
    """Whether a file ends in the middle of a line or of a compressed block."""

    is_compacted: bool
    """Whether Spark removed the events of finished jobs."""

    has_first_part: bool
    """Whether a rolling log still has its beginning."""


class EventReader:
    """Iterates over the events of one log, once; :attr:`health` counts what has been read."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._num_lines = self._num_events = self._num_skipped = 0
        self._num_broken = self._num_replaced = 0
        self._problems: list[str] = []
        self._is_cut = False
        self._break = ""
        """How the last file broke off, where one did."""

    @property
    def health(self) -> LogHealth:
        """Counts so far."""
        return LogHealth(
            num_lines=self._num_lines,
            num_events=self._num_events,
            num_skipped=self._num_skipped,
            num_broken=self._num_broken,
            num_replaced=self._num_replaced,
            problems=tuple(self._problems),
            is_cut=self._is_cut,
            is_compacted=self._log.is_compacted,
            has_first_part=self._log.has_first_part,
        )

    def __iter__(self) -> Iterator[Event]:
        """The events in the order of the log.

        Raises:
            InputError: the log cannot be read, or holds no event.
        """
        for part in self._log.parts:
            yield from self._events_of(part)
        if self._num_lines == self._num_broken:
            raise self._not_a_log()

    # Private methods

    def _events_of(self, part: LogPath) -> Iterator[Event]:
        end = StreamEnd()
        first_broken = ""
        line_number = 0
        skipped_line = b""  # the last line, where it was skipped without a look at its body
        is_broken = False
        for line_number, line in enumerate(read_lines(part, end), 1):
            self._num_lines += 1
            skipped_line, is_broken = b"", False
            try:
                event = self._decode(line)
            except LineError as error:
                is_broken = True
                self._num_broken += 1
                first_broken = first_broken or f"{part}:{line_number}: {error}"
                if self._num_broken == self._num_lines == _MAX_LINES_BEFORE_EVENT:
                    raise self._not_a_log() from error
                continue
            if event is None:
                self._num_skipped += 1
                skipped_line = line
            else:
                self._num_events += 1
                yield event
        if end.last_line_open and skipped_line and not is_whole(skipped_line):
            is_broken = True
            self._num_skipped -= 1
            self._num_broken += 1
            first_broken = first_broken or f"{part}:{line_number}: the line is cut"
        if first_broken:
            self._problems.append(first_broken)
        if end.problem:
            self._break = end.problem
            self._problems.append(f"{part}: breaks off: {end.problem}")
        self._is_cut |= bool(end.problem) or (is_broken and end.last_line_open)

    def _decode(self, line: bytes) -> Event | None:
        try:
            return decode_line(line)
        except LineError:
            text = line.decode("utf-8", "replace")
            replaced = text.encode()
            if replaced == line:
                raise
            event = decode_line(replaced)
            self._num_replaced += 1
            return event

    def _not_a_log(self) -> InputError:
        if self._num_lines:
            what = "no line of it is an event"
        elif self._break:
            what = f"no line of it can be read: {self._break}"
        else:
            what = "it is empty"
        return InputError(f"{self._log.path}: not a Spark event log: {what}")


def read_trace(log: EventLog) -> tuple[ApplicationTrace, LogHealth]:
    """The application of one log, and how much of the log could be used.

    Raises:
        InputError: the log cannot be read, or holds no event.
    """
    reader = EventReader(log)
    state = TraceFold()
    for event in reader:
        state.add(event)
    return state.result(), reader.health


__all__ = ["EventLog", "EventReader", "LogHealth", "find_event_logs", "read_trace"]
