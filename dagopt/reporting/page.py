"""One self-contained page from values: text, tables, and a figure drawn by plotly inside of it.

The page opens without network: plotly's own script is in it. All text is escaped by the template, and
what the figure gets is JSON in which no ``<`` is left, so that no name can end the script around it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jinja2

from dagopt.reporting.figure import Panel, figure_json
from dagopt.reporting.table import PageTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that a page shows, in its order."""

    title: str
    verdict: str
    lines: tuple[str, ...]
    """Sentences under the verdict."""
    panels: tuple[Panel, ...]
    """Timelines, under each other on one time axis."""
    tables: tuple[PageTable, ...]
    notes: tuple[str, ...]
    properties: str
    """Settings to use; empty where there are none to show."""
    provenance: tuple[tuple[str, str], ...]
    legend: str = (
        "A row is a slot of an executor, a colour a stage; the light part of a bar is waiting for "
        "shuffle blocks. Below: the share of cores whose tasks compute or do what is not measured "
        "(blue), and wait (yellow); above 100 % there are more tasks than cores."
    )
    """What the timelines show."""


def render(page: Page) -> str:
    """The page as HTML."""
    # Several MB, and slow to import: only who asks for a page pays for it.
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.PackageLoader("dagopt.reporting", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        page=page,
        # Trusted: plotly's own file, and JSON without a "<".
        plotly=jinja2.filters.do_mark_safe(get_plotlyjs()),
        figure=jinja2.filters.do_mark_safe(script_json(figure_json(page.panels))),
    )


def script_json(value: Any) -> str:
    """JSON that may stand inside of a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
