"""spark_conf/discover_gpus.sh with an nvidia-smi of ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "spark_conf" / "discover_gpus.sh"


def discover(directory: Path, nvidia_smi: str | None) -> subprocess.CompletedProcess[str]:
    """What the script says where nvidia-smi is this shell script, or is not there."""
    for tool in ("bash", "sh", "uname", "grep", "sed", "paste"):
        found = shutil.which(tool)
        assert found is not None
        (directory / tool).symlink_to(found)
    if nvidia_smi is not None:
        (directory / "nvidia-smi").write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        (directory / "nvidia-smi").chmod(0o755)
    return subprocess.run(
        [str(SCRIPT)], env={"PATH": str(directory)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("count", [1, 12])
def test_it_tells_spark_all_gpus(tmp_path: Path, count: int) -> None:
    indices = [str(index) for index in range(count)]
    said = discover(tmp_path, "\n".join(f"echo {index}" for index in indices))
    assert (said.returncode, said.stderr) == (0, "")
    assert json.loads(said.stdout) == {"name": "gpu", "addresses": indices}


@pytest.mark.parametrize(
    ("nvidia_smi", "text"),
    [
        (None, "no nvidia-smi on"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", "nvidia-smi failed on .*: NVIDIA-SMI has failed"),
        ("echo 'No devices were found'", "sees no GPU on .*: No devices were found"),
    ],
)
def test_without_gpus_it_fails_and_says_why(
    tmp_path: Path, nvidia_smi: str | None, text: str
) -> None:
    said = discover(tmp_path, nvidia_smi)
    assert (said.returncode, said.stdout) == (1, "")
    assert re.search(text, said.stderr), said.stderr
