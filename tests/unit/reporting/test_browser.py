"""The page in a browser, where there is one: Debian's chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dagopt.reporting.page import render
from tests.unit.reporting.test_page import EVIL, Parts, evil_page

CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_draws_the_timeline_and_runs_no_foreign_script(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(evil_page()), encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=10000"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    parts = Parts(done.stdout)
    assert "svg" in parts.tags
    assert 'class="point"' in done.stdout
    assert EVIL in parts.texts
    assert parts.tags.count("script") == 3
