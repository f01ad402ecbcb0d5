"""What a task leaves behind in a Python worker, in which Spark then runs other tasks."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from dagopt.tune.worker import freed_memory_kept

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

def use_200_mib():
    arrays = [np.ones(1 << 17) for _ in range(200)]
    del arrays

before = resident_mib()
with freed_memory_kept():
    use_200_mib()
    during = resident_mib()
after = resident_mib()
use_200_mib()
print(during - before, after - before, resident_mib() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these options")
def test_memory_that_arrays_freed_is_kept_in_a_phase_and_given_back_after_it() -> None:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, env=os.environ
    )
    during, after, later = map(int, found.stdout.split())
    assert during > 150
    assert after < 50
    assert later < 100
