from __future__ import annotations

import ipaddress
import socket
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from dagopt.train import collective
from dagopt.train.collective import interface_to


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost"])
def test_a_host_that_is_this_one_is_reached_by_loopback(host: str) -> None:
    assert interface_to([host]) == "lo"


def test_other_hosts_are_reached_by_the_interface_that_has_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of this machine's interfaces, by its own address there: no packet is sent."""
    address = collective._addresses("lo")
    assert {str(one) for one in address} & {"127.0.0.1", "::1"}
    names = [(1, "lo"), (2, "eth7")]
    monkeypatch.setattr(socket, "if_nameindex", lambda: names)
    monkeypatch.setattr(socket, "socket", Probe)
    monkeypatch.setattr(
        collective, "_addresses", lambda name: {Probe.own} if name == "eth7" else address
    )
    for own in ("10.1.2.3", "fe80::1"):
        Probe.own = ipaddress.ip_address(own)
        assert interface_to(["10.9.9.9"]) == "eth7"


def test_a_machine_whose_own_name_is_loopback_looks_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Debian, where rank 0 finds its own name at 127.0.1.1."""
    found = {"mine": "127.0.0.1", "other": "10.1.2.3"}
    monkeypatch.setattr(collective, "_own_address", lambda host: ipaddress.ip_address(found[host]))
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth7")])
    address = ipaddress.ip_address("10.1.2.3")
    monkeypatch.setattr(
        collective, "_addresses", lambda name: {address} if name == "eth7" else set()
    )
    assert interface_to(["mine", "other"]) == "eth7"
    assert interface_to(["mine", "mine"]) == "lo"


def test_a_host_that_nobody_knows_leaves_the_choice_to_gloo() -> None:
    assert interface_to(["no-such-host.invalid"]) is None


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_a_group_forms_at_a_name_of_loopback(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Debian, whose hosts have their own name at 127.0.1.1; and nothing of it stays."""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    script = (
        "import sys, numpy as np; from dagopt.train.collective import Group;"
        "from dagopt.tune.checkpoint import Store; rank = int(sys.argv[1]);"
        "group = Group(rank, 2, ['127.0.1.1'] * 2, Store(sys.argv[2]), 'states/meet', 60.0);"
        "values = np.array([rank + 1.0]); group.sum(values); group.close();"
        "import os; print(values[0], os.environ.get('GLOO_SOCKET_IFNAME'))"
    )
    members = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert [each.communicate(timeout=120)[0].split() for each in members] == [["3.0", "None"]] * 2


class Probe:
    """A socket that has an address of its own."""

    own: Any = None

    def __init__(self, family: int, kind: int) -> None:
        """Nothing is opened."""

    def __enter__(self) -> Probe:  # noqa: PYI034  Self is in Python 3.11 only
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is closed."""

    def connect(self, address: Any) -> None:
        """Nothing is sent."""

    def getsockname(self) -> tuple[str, int]:
        return (f"{self.own}%eth7", 9)
