"""``python -m dagopt.planner``: what the driver plugin starts. Not for people."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import IO

from dagopt.controller.application import ApplicationController
from dagopt.controller.boundary import BoundaryController
from dagopt.controller.gpu_costs import GpuCosts
from dagopt.controller.grouping import GroupingController
from dagopt.errors import DagoptError, InputError
from dagopt.model.stage_profile import StageProfiles
from dagopt.model.wire import Hello
from dagopt.planner.process import calm_gc, run
from dagopt.planner.settings import boundary_settings, controller_settings, shuffle_rates
from dagopt.spark.conf import PREFIX

_LOG = logging.getLogger("dagopt.planner")


def make_controller(hello: Hello) -> ApplicationController:
    """The controller for the application that says hello."""
    profiles = _profiles(hello)
    return ApplicationController(
        grouping=GroupingController(controller_settings(hello.conf), profiles),
        boundary=BoundaryController(
            boundary_settings(hello.conf), shuffle_rates(hello.conf), costs=GpuCosts(profiles)
        ),
    )


def _profiles(hello: Hello) -> StageProfiles | None:
    """The profile of earlier runs; a broken one is as good as none."""
    path = hello.conf.get(PREFIX + "profile")
    if not path:
        return None
    # pyarrow is slow to import, and only needed here.
    from dagopt.events.profile_file import read_profile  # noqa: PLC0415

    try:
        return read_profile(Path(path))
    except (InputError, OSError) as error:
        _LOG.warning("starting without the profile: %s", error)
        return None


def _decision_log(hello: Hello) -> IO[bytes] | None:
    path = hello.conf.get(PREFIX + "decisionLog")
    if not path:
        return None
    try:
        return Path(path).open("ab")
    except OSError as error:
        _LOG.warning("no decision log: %s", error)
        return None


def main() -> int:
    """Run until the driver closes its end."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    calm_gc()
    try:
        run(
            sys.stdin.buffer,
            sys.stdout.buffer,
            clock=time.time,
            make_controller=make_controller,
            decision_log=_decision_log,
        )
    except DagoptError as error:
        _LOG.error("%s", error)
        return error.exit_code
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
