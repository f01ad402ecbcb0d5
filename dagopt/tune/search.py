"""Optuna, as the sweep uses it: ask, report, prune, tell. No search algorithm is written here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dagopt.errors import InputError

Space: TypeAlias = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
"""Distributions of Optuna by name, or a function of an Optuna trial that suggests and returns them."""


class Search:
    """A study, and the space that its trials are asked from.

    Args:
        study_or_space: a study, or a space, for which a study in memory is made.
        space: the space, where a study is given.

    Raises:
        InputError: optuna is not installed, or the space is empty or none.
    """

    def __init__(self, study_or_space: Any, space: Space | None) -> None:
        try:
            import optuna  # noqa: PLC0415  the extra "tune"
        except ImportError as error:
            raise InputError("dagopt.tune needs optuna: pip install 'dagopt[tune]'") from error
        self._optuna = optuna
        given = study_or_space if isinstance(study_or_space, optuna.Study) else None
        if given is not None and space is None:
            raise InputError("space is missing: expected space=... beside a study")
        self._space = _checked(study_or_space if given is None else space, optuna)
        self.study = given or optuna.create_study()
        if len(self.study.directions) != 1:
            raise InputError("study has several objectives, expected one")
        self._trials: dict[int, Any] = {}

    @property
    def prunes(self) -> bool:
        """Whether trials may end early."""
        return not isinstance(self.study.pruner, self._optuna.pruners.NopPruner)

    @property
    def minimizes(self) -> bool:
        """Whether a lower loss is better."""
        return bool(self.study.direction == self._optuna.study.StudyDirection.MINIMIZE)

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Number and parameters of a new trial."""
        if callable(self._space):
            trial = self.study.ask()
            params = dict(self._space(trial))
        else:
            trial = self.study.ask(fixed_distributions=dict(self._space))
            params = dict(trial.params)
        self._trials[trial.number] = trial
        return trial.number, params

    def attach(self, number: int, params: Mapping[str, Any]) -> None:
        """Go on with a trial that was asked before the driver was killed."""
        trials = self.study.get_trials(deepcopy=False)
        if number >= len(trials):  # the study was in memory, and is gone
            distributions = {} if callable(self._space) else dict(self._space)
            known = {name: value for name, value in params.items() if name in distributions}
            self.study.add_trial(
                self._optuna.trial.create_trial(
                    state=self._optuna.trial.TrialState.RUNNING,
                    params=known,
                    distributions={name: distributions[name] for name in known},
                )
            )
            trials = self.study.get_trials(deepcopy=False)
        self._trials[number] = self._optuna.trial.Trial(self.study, trials[number]._trial_id)  # noqa: SLF001  no other door

    def is_running(self, number: int) -> bool:
        """Whether Optuna was not told yet how a trial ended."""
        state = self.study.get_trials(deepcopy=False)[number].state
        return bool(state == self._optuna.trial.TrialState.RUNNING)

    def report(self, number: int, iteration: int, loss: float) -> bool:
        """Report a loss; True if the trial is to stop."""
        trial = self._trials[number]
        known = self.study.get_trials(deepcopy=False)[number].intermediate_values
        if iteration not in known:  # before the driver was killed
            trial.report(loss, iteration)
        return self.prunes and bool(trial.should_prune())

    def note(self, number: int, name: str, value: Any) -> None:
        """Keep something with the trial, for ``dagopt tune show`` and Optuna's dashboard."""
        self._trials[number].set_user_attr(name, value)

    def tell(self, number: int, status: str, loss: float | None) -> None:
        """Tell how a trial ended: ``complete``, ``pruned`` or ``failed``."""
        if not self.is_running(number):
            return
        states = self._optuna.trial.TrialState
        if status == "complete" and loss is not None and math.isfinite(loss):
            self.study.tell(number, loss)
        elif status == "pruned":
            self.study.tell(number, state=states.PRUNED)
        else:
            self.study.tell(number, state=states.FAIL)


def _checked(space: Any, optuna: Any) -> Space:
    if callable(space):
        return space  # type: ignore[no-any-return]
    if not isinstance(space, Mapping):
        raise InputError(
            f"space is a {type(space).__name__}, expected a study, Optuna distributions by name, or"
            " a function of a trial"
        )
    if not space:
        raise InputError("space is empty, expected at least one parameter")
    for name, distribution in space.items():
        if not isinstance(distribution, optuna.distributions.BaseDistribution):
            raise InputError(
                f"space: {name} is a {type(distribution).__name__}, expected a distribution of Optuna"
            )
    return space
