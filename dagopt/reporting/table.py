"""A table as all reports have it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table with its heading; every row has as many cells as there are columns."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)
