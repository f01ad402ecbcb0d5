"""The table that ``nvidia-smi topo -m`` prints, read into a host's links.

The tool names the class of each connection and no speed, so each class stands here for what such links
carry in practice; a topology file can say otherwise. Network cards in the table are left out: which of
them a job's traffic takes is not told.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from dagopt.errors import InputError
from dagopt.model.topology import Host, Link

_GB = 1e9
_NVLINK_BYTES_PER_S = 25 * _GB
"""One NVLink of the second or third generation, one direction (NVIDIA, "NVLink and NVSwitch")."""

CLASSES = MappingProxyType(
    {
        # PCIe 3.0 with 16 lanes carries about 12 GB/s; each bridge or socket on the way costs some.
        "PIX": Link(bandwidth_bytes_per_s=12 * _GB, latency_s=5e-6, distance=2, name="PIX"),
        "PXB": Link(bandwidth_bytes_per_s=11 * _GB, latency_s=6e-6, distance=3, name="PXB"),
        "PHB": Link(bandwidth_bytes_per_s=10 * _GB, latency_s=8e-6, distance=4, name="PHB"),
        "NODE": Link(bandwidth_bytes_per_s=9 * _GB, latency_s=9e-6, distance=5, name="NODE"),
        "SYS": Link(bandwidth_bytes_per_s=6 * _GB, latency_s=12e-6, distance=6, name="SYS"),
    }
)
"""Links through PCIe by the tool's own names, nearest first."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def link_of_class(name: str) -> Link:
    """The link that a class such as ``NV4`` or ``PHB`` stands for.

    Raises:
        InputError: there is no such class.
    """
    if name in CLASSES:
        return CLASSES[name]
    if re.fullmatch(r"NV[1-9][0-9]*", name):
        return Link(
            bandwidth_bytes_per_s=int(name[2:]) * _NVLINK_BYTES_PER_S, latency_s=2e-6, name=name
        )
    raise InputError(f"link class {name!r}: expected NV<n> or one of {', '.join(CLASSES)}")


def parse_nvidia_topology(text: str, *, host: str, network: Link, switch: str = "network") -> Host:
    """The host that the output of ``nvidia-smi topo -m`` describes.

    Raises:
        InputError: the table has no GPU, a row is short or double, a class is unknown, or the table
            says something else of a pair in one direction than in the other.
    """
    lines = [_ANSI.sub("", line).split() for line in text.splitlines()]
    header = next((words for words in lines if words and words[0] == "GPU0"), None)
    if header is None:
        raise InputError(f"host {host}: expected the table of nvidia-smi topo -m, found no GPU0")
    columns = [word for word in header if re.fullmatch(r"GPU[0-9]+|NIC[0-9]+|mlx[0-9_]+", word)]
    names = [word for word in columns if word.startswith("GPU")]
    cells: dict[tuple[str, str], str] = {}
    for words in lines:
        if not words or words is header or words[0] not in names:
            continue
        row, values = words[0], words[1 : 1 + len(columns)]
        if len(values) < len(columns):
            raise InputError(f"host {host}: row {row} has {len(values)} of {len(columns)} columns")
        if (row, row) in cells:
            raise InputError(f"host {host}: row {row} is there twice")
        cells.update({(row, column): value for column, value in zip(columns, values, strict=True)})
    for name in names:
        if cells.get((name, name)) != "X":
            raise InputError(f"host {host}: no row for {name} in the table")
    links: dict[tuple[str, str], Link] = {}
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            if cells[one, other] != cells.get((other, one)):
                raise InputError(
                    f"host {host}: {one} to {other} is {cells[one, other]}, "
                    f"and back {cells.get((other, one))}"
                )
            links[one[3:], other[3:]] = link_of_class(cells[one, other])
    addresses = tuple(name[3:] for name in names)
    return Host(name=host, addresses=addresses, links=links, network=network, switch=switch)
