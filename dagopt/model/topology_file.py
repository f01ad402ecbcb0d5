"""A topology file's content, already read from YAML into plain values, as a :class:`Topology`.

::

    defaults:                     # for every host that does not say otherwise
      local: {gbytes_per_s: 12, latency_us: 5}
      network: {gbytes_per_s: 1.25, latency_us: 30}
    switches:
      - {name: row1, gbytes_per_s: 5, latency_us: 5}
    hosts:
      - {name: a, accelerators: 4, switch: row1}
      - name: b
        accelerators: ["0", "1"]
        links:
          - {between: ["0", "1"], gbytes_per_s: 50}
      - name: c
        nvidia_smi: |             # the output of nvidia-smi topo -m on that host
          ...
      - {name: "d{1-12}", accelerators: 4}     # twelve hosts, d1 to d12
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dagopt.errors import InputError
from dagopt.model.nvidia_topology import parse_nvidia_topology
from dagopt.model.topology import Host, Link, Topology

_LINK_KEYS = frozenset({"gbytes_per_s", "latency_us"})
_RANGE = re.compile(r"(.*)\{([0-9]+)-([0-9]+)\}(.*)")


def topology_of_file(content: Any, *, source: str) -> Topology:
    """The topology that a file describes; ``source`` is its name in messages.

    Raises:
        InputError: a key is unknown or missing, a value has the wrong type, a pair of accelerators
            has no link, or a host is there twice; the message says where.
    """
    top = _mapping(content, source, {"defaults", "switches", "hosts"})
    defaults = _mapping(top.get("defaults", {}), f"{source}: defaults", {"local", "network"})
    uplinks: dict[str, Link] = {}
    for at, each in enumerate(_list(top.get("switches", []), f"{source}: switches")):
        place = f"{source}: switches[{at}]"
        found = _mapping(each, place, {"name", *_LINK_KEYS})
        name = _text(found.get("name"), f"{place}.name")
        if name in uplinks:
            raise InputError(f"{place}: switch {name} is there twice")
        uplinks[name] = _link({k: v for k, v in found.items() if k != "name"}, place, name)
    hosts: list[Host] = []
    for at, each in enumerate(_list(top.get("hosts"), f"{source}: hosts")):
        hosts += _hosts(each, f"{source}: hosts[{at}]", defaults, uplinks)
    try:
        return Topology(hosts=tuple(hosts), uplinks=uplinks)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


# Private functions


def _hosts(
    each: Any, place: str, defaults: Mapping[str, Any], uplinks: Mapping[str, Link]
) -> list[Host]:
    keys = {"name", "accelerators", "nvidia_smi", "local", "links", "network", "switch"}
    found = _mapping(each, place, keys)
    pattern = _text(found.get("name"), f"{place}.name")
    switch = _text(found.get("switch", "network"), f"{place}.switch")
    if "switch" in found and uplinks and switch not in uplinks:
        raise InputError(f"{place}.switch: no switch {switch}; there are {', '.join(uplinks)}")
    network = found.get("network", defaults.get("network"))
    if network is None:
        raise InputError(f"{place}: no network link, neither here nor in defaults")
    way = _link(network, f"{place}.network", "network")
    if ("accelerators" in found) == ("nvidia_smi" in found):
        raise InputError(f"{place}: expected one of accelerators and nvidia_smi")
    try:
        if "nvidia_smi" in found:
            table = _text(found["nvidia_smi"], f"{place}.nvidia_smi")
            return [parse_nvidia_topology(table, host=pattern, network=way, switch=switch)]
        addresses = _addresses(found["accelerators"], f"{place}.accelerators")
        links = _links(found, place, addresses, found.get("local", defaults.get("local")))
        return [
            Host(name=name, addresses=addresses, links=links, network=way, switch=switch)
            for name in _names(pattern, place)
        ]
    except InputError as error:
        known = str(error).startswith(place)
        raise InputError(str(error) if known else f"{place}: {error}") from error


def _names(pattern: str, place: str) -> list[str]:
    match = _RANGE.fullmatch(pattern)
    if match is None:
        return [pattern]
    first, last = int(match[2]), int(match[3])
    if last < first:
        raise InputError(f"{place}.name: expected a rising range, got {pattern!r}")
    width = len(match[2]) if match[2].startswith("0") else 0
    return [f"{match[1]}{number:0{width}d}{match[4]}" for number in range(first, last + 1)]


def _addresses(value: Any, place: str) -> tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InputError(f"{place}: expected a number >= 0, got {value}")
        return tuple(str(at) for at in range(value))
    return tuple(str(each) for each in _list(value, place))


def _links(
    found: Mapping[str, Any], place: str, addresses: tuple[str, ...], local: Any
) -> dict[tuple[str, str], Link]:
    links: dict[tuple[str, str], Link] = {}
    if local is not None:
        link = _link(local, f"{place}.local", "local")
        links = {(a, b): link for at, a in enumerate(addresses) for b in addresses[at + 1 :]}
    for at, each in enumerate(_list(found.get("links", []), f"{place}.links")):
        here = f"{place}.links[{at}]"
        entry = _mapping(each, here, {"between", *_LINK_KEYS})
        ends = [str(end) for end in _list(entry.get("between"), f"{here}.between")]
        if len(ends) != 2 or ends[0] == ends[1] or not set(ends) <= set(addresses):
            raise InputError(f"{here}.between: expected two of {', '.join(addresses)}, got {ends}")
        ends.sort(key=addresses.index)
        given = {k: v for k, v in entry.items() if k != "between"}
        links[ends[0], ends[1]] = _link(given, here, "link")
    return links


def _link(value: Any, place: str, name: str) -> Link:
    found = _mapping(value, place, _LINK_KEYS)
    numbers = {}
    for key in found:
        number = found[key]
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"{place}.{key}: expected a number, got {number!r}")
        numbers[key] = float(number)
    if "gbytes_per_s" not in numbers:
        raise InputError(f"{place}: expected gbytes_per_s")
    try:
        return Link(
            bandwidth_bytes_per_s=numbers["gbytes_per_s"] * 1e9,
            latency_s=numbers.get("latency_us", 0.0) / 1e6,
            name=name,
        )
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _mapping(value: Any, place: str, keys: frozenset[str] | set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: expected a mapping, got {type(value).__name__}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise InputError(f"{place}: no key {unknown[0]!r}; there are {', '.join(sorted(keys))}")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{place}: expected a list, got {type(value).__name__}")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{place}: expected a text, got {value!r}")
    return value
