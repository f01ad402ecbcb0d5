"""Networks of hosts, the user's rules for them, and what an input host set says."""

from __future__ import annotations

import pytest

from dagopt.errors import InputError
from dagopt.model.network import InputHostSet, Networks, parse_networks


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.1.7", "10.0.1.0/24"),
        ("10.0.1.250", "10.0.1.0/24"),
        ("10.0.2.7", "10.0.2.0/24"),
        ("2001:db8::1", "2001:db8::/64"),
        ("node1.rack2.example.com", "rack2.example.com"),
        ("node1", "default"),
        ("", "default"),
    ],
)
def test_without_rules_a_host_belongs_to_its_subnet(host: str, network: str) -> None:
    assert Networks().of(host) == network


def test_rules_name_hosts_and_subnets() -> None:
    networks = parse_networks("rack1 = 10.0.1.0/24, hostA ; rack2=10.0.2.0/23,2001:db8::/32;")
    names = ["10.0.1.9", "hostA", "10.0.3.1", "2001:db8:5::1", "10.0.9.1", "hostB"]
    assert [networks.of(host) for host in names] == [
        "rack1",
        "rack1",
        "rack2",
        "rack2",
        "10.0.9.0/24",
        "default",
    ]


def test_a_host_rule_wins_over_a_subnet_and_the_first_subnet_over_later_ones() -> None:
    networks = parse_networks("all=10.0.0.0/8;one=10.0.1.0/24;own=10.0.1.5")
    assert networks.of("10.0.1.5") == "own"
    assert networks.of("10.0.1.6") == "all"


def test_a_subnet_may_be_written_with_host_bits() -> None:
    assert parse_networks("a=10.0.1.7/24").of("10.0.1.200") == "a"


@pytest.mark.parametrize("text", ["", " ", ";", " ; ;"])
def test_no_rules_are_no_rules(text: str) -> None:
    assert parse_networks(text) == Networks()


@pytest.mark.parametrize("rule", ["rack1", "=10.0.1.0/24", "rack1=", "rack1 10.0.1.0/24"])
def test_a_rule_without_name_or_members_is_refused(rule: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_networks(f"ok=hostZ;{rule}")
    assert str(caught.value) == f"network rule '{rule}': expected name=subnet-or-host,..."


def test_a_broken_subnet_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        parse_networks("rack1=10.0.1.0/99")
    assert str(caught.value).startswith("network rule 'rack1=10.0.1.0/99': ")
    assert "10.0.1.0/99" in str(caught.value)


def test_a_host_in_two_networks_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        parse_networks("a=h1;b=h1")
    assert str(caught.value) == "network rule 'b=h1': h1 is already in a"


def test_a_host_named_twice_in_one_network_is_fine() -> None:
    assert parse_networks("a=h1,h1").of("h1") == "a"


@pytest.mark.parametrize(
    ("local", "networks", "text"),
    [
        (False, (), "nothing"),
        (True, (), "local"),
        (False, ("a", "b"), "a + b"),
        (True, ("a",), "local + a"),
    ],
)
def test_an_input_host_set_reads_well(local: bool, networks: tuple[str, ...], text: str) -> None:  # noqa: FBT001
    assert str(InputHostSet(local=local, networks=networks)) == text


def test_input_host_sets_are_values_with_an_order() -> None:
    first, second = (
        InputHostSet(local=False, networks=("b",)),
        InputHostSet(local=True, networks=()),
    )
    assert first < second
    assert len({first, InputHostSet(local=False, networks=("b",))}) == 1
