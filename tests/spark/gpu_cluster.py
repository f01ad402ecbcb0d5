"""A local cluster that offers GPUs which are not there."""

from __future__ import annotations

import json
from pathlib import Path


def gpu_conf(directory: Path, *, num_gpus: int = 1, cores: int = 2) -> dict[str, str]:
    """Settings for one executor with cores, and with GPUs that a discovery script tells of."""
    script = directory / "gpus.sh"
    addresses = json.dumps([str(index) for index in range(num_gpus)])
    script.write_text(f'#!/bin/sh\necho \'{{"name": "gpu", "addresses": {addresses}}}\'\n')
    script.chmod(0o755)
    conf = {"spark.master": f"local-cluster[1,{cores},640]", "spark.executor.cores": str(cores)}
    for who in ("worker", "executor"):
        conf[f"spark.{who}.resource.gpu.amount"] = str(num_gpus)
        conf[f"spark.{who}.resource.gpu.discoveryScript"] = str(script)
    return conf
