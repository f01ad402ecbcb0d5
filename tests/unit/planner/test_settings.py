"""Settings of the controller from the application's configuration."""

from __future__ import annotations

import pytest

from dagopt.errors import ConfError
from dagopt.planner.settings import boundary_settings, controller_settings, shuffle_rates


def test_defaults_are_those_of_the_table_of_keys() -> None:
    settings = controller_settings({})
    assert settings.grouping.max_tasks_per_core == 4
    assert settings.grouping.max_delay_s == 10.0
    assert settings.bandwidths.network_bytes_per_s == 125 * 1024**2
    assert settings.bandwidths.disk_bytes_per_s == 200 * 1024**2
    assert settings.networks.of("10.0.1.7") == "10.0.1.0/24"


def test_what_is_set_counts() -> None:
    settings = controller_settings(
        {
            "spark.dagopt.slotsPerCore": "2",
            "spark.dagopt.maxDelay": "250ms",
            "spark.dagopt.network.bandwidth": "1g",
            "spark.dagopt.disk.bandwidth": "1k",
            "spark.dagopt.networks": "r1=10.0.1.7",
        }
    )
    assert settings.grouping.max_tasks_per_core == 2
    assert settings.grouping.max_delay_s == 0.25
    assert settings.bandwidths.network_bytes_per_s == 1024**3
    assert settings.bandwidths.disk_bytes_per_s == 1024
    assert settings.networks.of("10.0.1.7") == "r1"


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(ConfError) as caught:
        controller_settings({"spark.dagopt.slotsPerCore": "0"})
    assert "spark.dagopt.slotsPerCore" in str(caught.value)
    assert "a whole number from 1 to 16" in str(caught.value)


def test_no_delay_at_all_is_a_value_that_the_check_allows() -> None:
    settings = controller_settings({"spark.dagopt.maxDelay": "0ms"})
    assert settings.grouping.max_delay_s == 0.0


def test_forms_of_gpu_stages_are_as_the_user_says_and_their_shuffles_as_the_network_is() -> None:
    assert boundary_settings({}).boundary == "auto"
    assert boundary_settings({"spark.dagopt.boundary": "never"}).boundary == "never"
    rates = shuffle_rates({"spark.dagopt.network.bandwidth": "1m"})
    assert rates.network_bytes_per_s == 1024**2
    assert rates.disk_bytes_per_s == 200 * 1024**2
    with pytest.raises(ConfError, match="allowed is auto, always, never"):
        boundary_settings({"spark.dagopt.boundary": "no"})
