"""A phase's rank by itself."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace

from dagopt.train.worker import PhaseWork, Worker


def test_a_module_that_executors_lack_is_named_with_what_helps(tmp_path: Path) -> None:
    job = b"cmy_models\nModel\n."  # a pickle that imports it
    content = pickle.dumps((job, str(tmp_path), 10.0))
    work = PhaseWork(rank=0, size=1, number=0, first=0, phase_s=1.0, look_s=0.1, state="")
    outcome = Worker(broadcast=SimpleNamespace(value=content))(work, ["localhost"])
    assert outcome.error.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'my_models': executors need it too, by"
        " spark.sparkContext.addPyFile or spark.executorEnv.PYTHONPATH"
    )
