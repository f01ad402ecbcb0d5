"""Debian's chromium, where there is one, for tests of pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_CHROMIUM = shutil.which("chromium")

needs_browser = pytest.mark.skipif(_CHROMIUM is None, reason="chromium is not installed")


def dom_of(page: Path, profile: Path) -> str:
    """The document that the browser makes of a page once its scripts have run."""
    command = [str(_CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=10000"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
