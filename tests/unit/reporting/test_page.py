from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from dagopt.cli.main import main
from dagopt.reporting.figure import Bar, Hold, Panel
from dagopt.reporting.page import Page, render
from dagopt.reporting.table import PageTable
from tests.unit.events.event_lines import small_log

EVIL = "count at </script><script>alert(1)</script> & <b>größer</b> \u2028 {{ 7 * 7 }}"


class Parts(HTMLParser):
    """Elements and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.sources: list[str] = []
        self.frames: list[str] = []
        self.scripts: list[str] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._open = tag
        self.frames += [value or "" for name, value in attrs if name == "srcdoc"]
        self.sources += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        (self.scripts if self._open == "script" else self.texts).append(data)

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._open = ""


def evil_page() -> Page:
    one = Bar(stage=0, executor=EVIL, start_s=0.0, read_s=0.5, end_s=1.0)
    return Page(
        title=EVIL,
        verdict=EVIL,
        lines=(EVIL,),
        panels=(Panel(heading=EVIL, bars=(one,), stage_names=(EVIL,), num_cores=1.0),),
        tables=(PageTable(heading=EVIL, columns=(EVIL,), rows=((EVIL,),), note=EVIL),),
        notes=(EVIL,),
        properties=EVIL,
        provenance=((EVIL, EVIL),),
    )


def test_no_name_becomes_an_element_and_all_are_shown() -> None:
    parts = Parts(render(evil_page()))
    assert parts.tags.count("script") == 3
    assert "b" not in parts.tags
    assert sum(text == EVIL for text in parts.texts) == 12
    (data,) = [text for text in parts.scripts if text.startswith('{"data":')]
    (timeline, *_) = json.loads(data)["data"]
    assert timeline["y"] == [f"{EVIL}/1"]
    # Plotly takes a few tags in hover texts, so there they are escaped.
    assert "&lt;/script&gt;" in timeline["hovertext"][0]
    assert "größer" in timeline["hovertext"][0]


def test_the_page_loads_nothing() -> None:
    assert Parts(render(evil_page())).sources == []


def test_the_command_writes_the_page_once(tmp_path: Path) -> None:
    log, page = tmp_path / "log", tmp_path / "advice.html"
    log.write_bytes(b"\n".join(small_log()))
    assert main(["advise", str(log), "--html", str(page)]) == 0
    parts = Parts(page.read_text(encoding="utf-8"))
    assert "0 s: nothing to gain that is sure." in " ".join(parts.texts)
    assert "count at /home/me/job.py:12" in parts.texts
    assert main(["advise", str(log), "--html", str(page)]) == 2
    assert main(["advise", str(log), "--html", str(page), "--force"]) == 0


def test_the_legend_names_what_is_drawn_and_nothing_else() -> None:
    plain = evil_page()
    (panel,) = plain.panels
    hold = Hold(executor="1", start_s=0.0, end_s=1.0, text="group 1")
    held = render(replace(plain, panels=(replace(panel, holds=(hold,), num_gpus=1.0),)))
    told = ("how long their launch was delayed", "the share of GPUs that tasks hold")
    assert all(text in held for text in told)
    assert not any(text in render(plain) for text in told)
