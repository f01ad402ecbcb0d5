from __future__ import annotations

import numpy as np
import pytest

from dagopt.errors import InputError
from dagopt.model.nvidia_topology import parse_nvidia_topology
from dagopt.model.topology import (
    OTHER_SWITCH,
    SAME_SWITCH,
    Accelerator,
    ExecutorResources,
    Host,
    Link,
    Topology,
    topology_of_executors,
    uniform_host,
)
from dagopt.model.topology_file import topology_of_file

FAST = Link(bandwidth_bytes_per_s=12e9, latency_s=5e-6)
SLOW = Link(bandwidth_bytes_per_s=1e9, latency_s=50e-6)

# Two pairs of cards, each on a bridge of its own; a network card beside them.
TABLE = """
\x1b[4m	GPU0	GPU1	GPU2	GPU3	NIC0	CPU Affinity	NUMA Affinity\x1b[0m
GPU0	 X 	NV4	SYS	SYS	PHB	0-15	0
GPU1	NV4	 X 	SYS	SYS	PHB	0-15	0
GPU2	SYS	SYS	 X 	PIX	SYS	16-31	1
GPU3	SYS	SYS	PIX	 X 	SYS	16-31	1
NIC0	PHB	PHB	SYS	SYS	 X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def two_hosts() -> Topology:
    return Topology(
        hosts=(
            uniform_host("a", ("0", "1"), local=FAST, network=SLOW, switch="s1"),
            uniform_host("b", ("0", "1"), local=FAST, network=SLOW, switch="s1"),
            uniform_host("c", ("0",), local=FAST, network=SLOW, switch="s2"),
        ),
        uplinks={"s1": Link(bandwidth_bytes_per_s=5e8, latency_s=1e-5)},
    )


def test_the_slowest_part_of_the_way_carries_a_transfer() -> None:
    topology = two_hosts()
    a0, a1, b0, c0 = (Accelerator(*each.split(":")) for each in ("a:0", "a:1", "b:0", "c:0"))
    assert topology.link(a0, a1) == FAST
    between = topology.link(a0, b0)
    assert (between.bandwidth_bytes_per_s, between.latency_s) == (1e9, 1e-4)
    assert between.distance == SAME_SWITCH
    far = topology.link(a0, c0)
    assert (far.bandwidth_bytes_per_s, far.distance) == (5e8, OTHER_SWITCH)
    assert far.latency_s == pytest.approx(1.1e-4)


def test_matrices_are_symmetric_with_nothing_to_oneself() -> None:
    topology = two_hosts()
    members = topology.accelerators
    bandwidth = topology.bandwidth_bytes_per_s(members)
    assert bandwidth.shape == (5, 5)
    np.testing.assert_array_equal(bandwidth, bandwidth.T)
    assert np.isinf(np.diag(bandwidth)).all()
    assert topology.latency_s(members)[0, 2] == 1e-4
    np.testing.assert_array_equal(topology.distance(members)[0], [0, 1, 7, 7, 8])


def test_nvidia_smi_topo_is_read() -> None:
    host = parse_nvidia_topology(TABLE, host="node", network=SLOW)
    assert host.addresses == ("0", "1", "2", "3")
    assert host.link("1", "0").name == "NV4"
    assert host.link("0", "1").bandwidth_bytes_per_s == 100e9
    assert [host.link("2", other).name for other in ("0", "3")] == ["SYS", "PIX"]
    assert (
        host.link("0", "1").distance < host.link("2", "3").distance < host.link("0", "2").distance
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no table", "host node: expected the table of nvidia-smi topo -m, found no GPU0"),
        ("GPU0 GPU1\nGPU0 X NV4\n", "host node: no row for GPU1 in the table"),
        ("GPU0 GPU1\nGPU0 X\n", "host node: row GPU0 has 1 of 2 columns"),
        (
            "GPU0 GPU1\nGPU0 X NV4\nGPU1 PIX X\n",
            "host node: GPU0 to GPU1 is NV4, and back PIX",
        ),
        (
            "GPU0 GPU1\nGPU0 X XYZ\nGPU1 XYZ X\n",
            "link class 'XYZ': expected NV<n> or one of PIX, PXB, PHB, NODE, SYS",
        ),
        ("GPU0\nGPU0 X\nGPU0 X\n", "host node: row GPU0 is there twice"),
    ],
)
def test_broken_tables_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        parse_nvidia_topology(text, host="node", network=SLOW)
    assert str(found.value) == message


def test_a_missing_link_and_a_double_host_are_errors() -> None:
    with pytest.raises(InputError, match="host a: no link between 0 and 1"):
        Host(name="a", addresses=("0", "1"), links={}, network=SLOW)
    with pytest.raises(InputError, match="host a is in the topology twice"):
        Topology(hosts=(uniform_host("a", ("0",), local=FAST, network=SLOW),) * 2)
    with pytest.raises(InputError, match="a: an accelerator is named twice"):
        Host(name="a", addresses=("0", "0"), links={("0", "0"): FAST}, network=SLOW)
    with pytest.raises(InputError, match="x:0 is not in the topology"):
        two_hosts().link(Accelerator("x", "0"), Accelerator("a", "0"))


def test_executors_give_their_hosts_accelerators() -> None:
    executors = [
        ExecutorResources(executor="1", host="b", addresses=("1",)),
        ExecutorResources(executor="2", host="b", addresses=("0",)),
        ExecutorResources(executor="3", host="a", addresses=("0",)),
    ]
    topology = topology_of_executors(executors, local=FAST, network=SLOW)
    assert [str(each) for each in topology.accelerators] == ["a:0", "b:0", "b:1"]
    twice = [*executors, ExecutorResources(executor="4", host="b", addresses=("1",))]
    with pytest.raises(InputError, match="accelerator b:1 is given to executors 1 and 4"):
        topology_of_executors(twice, local=FAST, network=SLOW)


def content() -> dict[str, object]:
    return {
        "defaults": {"local": {"gbytes_per_s": 12}, "network": {"gbytes_per_s": 1.25}},
        "switches": [{"name": "row1", "gbytes_per_s": 5, "latency_us": 5}],
        "hosts": [
            {"name": "a", "accelerators": 2, "switch": "row1"},
            {
                "name": "b",
                "accelerators": ["x", "y"],
                "links": [{"between": ["y", "x"], "gbytes_per_s": 50}],
            },
            {"name": "n{08-10}", "accelerators": 1},
            {"name": "c", "nvidia_smi": TABLE},
        ],
    }


def test_a_file_describes_hosts_ranges_and_tables() -> None:
    topology = topology_of_file(content(), source="c.yaml")
    assert [host.name for host in topology.hosts] == ["a", "b", "n08", "n09", "n10", "c"]
    assert topology.hosts[1].link("x", "y").bandwidth_bytes_per_s == 50e9
    assert len(topology.accelerators) == 2 + 2 + 3 + 4
    assert topology.uplinks["row1"].latency_s == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ({"name": "a", "accelerators": 1}, "c.yaml: host a is in the topology twice"),
        (
            {"name": "z", "accelerators": 1, "gpus": 2},
            (
                "c.yaml: hosts[4]: no key 'gpus'; there are accelerators, links, local, name, "
                "network, nvidia_smi, switch"
            ),
        ),
        ({"name": "z"}, "c.yaml: hosts[4]: expected one of accelerators and nvidia_smi"),
        ({"accelerators": 1}, "c.yaml: hosts[4].name: expected a text, got None"),
        (
            {"name": "z", "accelerators": 1, "switch": "row9"},
            "c.yaml: hosts[4].switch: no switch row9; there are row1",
        ),
        (
            {"name": "z", "accelerators": 2, "local": {"gbytes_per_s": "12"}},
            "c.yaml: hosts[4].local.gbytes_per_s: expected a number, got '12'",
        ),
        (
            {"name": "z", "accelerators": 2, "local": {"gbytes_per_s": 0}},
            "c.yaml: hosts[4].local: link local: bandwidth is 0.0 bytes/s, must be > 0",
        ),
        (
            {"name": "z", "accelerators": ["0", "1"], "links": [{"between": ["0", "7"]}]},
            "c.yaml: hosts[4].links[0].between: expected two of 0, 1, got ['0', '7']",
        ),
    ],
)
def test_a_broken_file_names_the_place(host: dict[str, object], message: str) -> None:
    broken = content()
    hosts = broken["hosts"]
    assert isinstance(hosts, list)
    hosts.append(host)
    with pytest.raises(InputError) as found:
        topology_of_file(broken, source="c.yaml")
    assert str(found.value) == message


def test_a_host_without_a_default_link_needs_all_of_its_own() -> None:
    hosts = [
        {
            "name": "a",
            "accelerators": 3,
            "network": {"gbytes_per_s": 1},
            "links": [{"between": ["0", "1"], "gbytes_per_s": 9}],
        }
    ]
    with pytest.raises(InputError, match=r"hosts\[0\]: host a: no link between 0 and 2"):
        topology_of_file({"hosts": hosts}, source="c.yaml")
