"""The page in a browser, where there is one: Debian's chromium."""

from __future__ import annotations

from pathlib import Path

from dagopt.reporting.page import render
from tests.browser import dom_of, needs_browser
from tests.unit.reporting.test_page import EVIL, Parts, evil_page


@needs_browser
def test_a_browser_draws_the_timeline_and_runs_no_foreign_script(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(evil_page()), encoding="utf-8")
    dom = dom_of(page, tmp_path / "profile")
    parts = Parts(dom)
    assert "svg" in parts.tags
    assert 'class="point"' in dom
    assert EVIL in parts.texts
    assert parts.tags.count("script") == 3
