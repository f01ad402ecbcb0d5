"""The controller's settings from the configuration that the JVM sends with its first message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from dagopt.controller.grouping import ControllerSettings
from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.inserted_shuffle import ShuffleRates
from dagopt.model.network import parse_networks
from dagopt.policy.boundary.choose_form import Boundary, BoundarySettings
from dagopt.policy.grouping.decide import GroupingSettings
from dagopt.spark.conf import PREFIX, check_conf, value_of
from dagopt.units import parse_bytes, parse_time_s


def controller_settings(conf: Mapping[str, str]) -> ControllerSettings:
    """Settings for a controller.

    Args:
        conf: the ``spark.dagopt.*`` settings of the application; what is not set has its default.

    Raises:
        ConfError: a value is wrong.
    """
    check_conf(conf)

    def text(name: str) -> str:
        return value_of(conf, PREFIX + name) or ""

    return ControllerSettings(
        grouping=GroupingSettings(
            max_tasks_per_core=int(text("slotsPerCore")),
            max_delay_s=parse_time_s(text("maxDelay")),
        ),
        bandwidths=Bandwidths(
            network_bytes_per_s=float(parse_bytes(text("network.bandwidth"))),
            disk_bytes_per_s=float(parse_bytes(text("disk.bandwidth"))),
        ),
        networks=parse_networks(text("networks")),
    )


def boundary_settings(conf: Mapping[str, str]) -> BoundarySettings:
    """What the user set for the forms of GPU stages.

    Raises:
        ConfError: a value is wrong.
    """
    check_conf(conf)
    return BoundarySettings(boundary=cast("Boundary", value_of(conf, PREFIX + "boundary")))


def shuffle_rates(conf: Mapping[str, str]) -> ShuffleRates:
    """What inserted shuffles are taken to cost until they have been measured.

    Raises:
        ConfError: a value is wrong.
    """
    bandwidths = controller_settings(conf).bandwidths
    return ShuffleRates(
        disk_bytes_per_s=bandwidths.disk_bytes_per_s,
        network_bytes_per_s=bandwidths.network_bytes_per_s,
    )
