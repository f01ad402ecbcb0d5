"""A cluster's topology from files: YAML, or what ``nvidia-smi topo -m`` printed."""

from __future__ import annotations

from pathlib import Path

from dagopt.errors import InputError
from dagopt.model.nvidia_topology import parse_nvidia_topology
from dagopt.model.topology import Link, Topology
from dagopt.model.topology_file import topology_of_file

DEFAULT_NETWORK = Link(bandwidth_bytes_per_s=1.25e9, latency_s=30e-6, name="network")
"""The network link of a host of which only ``nvidia-smi topo -m`` is known: 10 Gbit/s."""


def read_topology(path: Path) -> Topology:
    """The topology in a file: YAML if its name ends so, else the output of ``nvidia-smi topo -m``.

    Raises:
        InputError: the file cannot be read, or says something wrong; the message names the place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if path.suffix not in {".yaml", ".yml"}:
        host = parse_nvidia_topology(text, host=path.stem, network=DEFAULT_NETWORK)
        return Topology(hosts=(host,))
    # In the extra "cluster"; the other commands do without.
    try:
        import yaml  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"{path}: reading YAML needs pip install 'dagopt[cluster]'") from error

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {error}") from error
    return topology_of_file(content, source=str(path))
