"""Optuna, as the sweep uses it: ask, report, prune, tell. No search algorithm is written here."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from dagopt.errors import InputError

Space: TypeAlias = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
"""Distributions of Optuna by name, or a function of an Optuna trial that suggests and returns them."""

_TRIAL: Final = "dagopt_trial"
"""Attribute of a trial: the sweep that asked for it, and its number there."""

_STOP: Final = "dagopt_stop"
"""Attribute of a trial: the iteration at which it was found that it is to be pruned."""


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
        try:
            directions, _ = self.study.directions, self.study.get_trials(states=())
        except Exception as error:  # errors of the database's library, whichever it is
            raise InputError(f"study cannot be read: {error!r}") from error
        if len(directions) != 1:
            raise InputError("study has several objectives, expected one")
        self.begin("")

    def begin(self, sweep: str, *, resumes: bool = False) -> None:
        """Know no trials, and mark those to come as trials of the sweep of that name."""
        if resumes:  # a sampler with a seed would draw again what the driver before drew
            self.study.sampler.reseed_rng()
        self._sweep = sweep
        self._trials: dict[int, Any] = {}
        self._left_over: list[Any] = []

    @property
    def prunes(self) -> bool:
        """Whether trials may end early."""
        return not isinstance(self.study.pruner, self._optuna.pruners.NopPruner)

    @property
    def minimizes(self) -> bool:
        """Whether a lower loss is better."""
        return bool(self.study.direction == self._optuna.study.StudyDirection.MINIMIZE)

    def space_told(self) -> dict[str, str]:
        """Each parameter's distribution in words, or the name of the function."""
        if callable(self._space):
            return {
                "function": getattr(self._space, "__qualname__", type(self._space).__qualname__)
            }
        return {name: repr(each) for name, each in sorted(self._space.items())}

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Number and parameters of a new trial."""
        if self._left_over:
            trial = self._left_over.pop(0)
            number = int(trial.user_attrs[_TRIAL].rpartition("/")[2])
            self._trials[number] = trial
            return number, dict(trial.params)
        if callable(self._space):
            trial = self.study.ask()
            params = dict(self._space(trial))
        else:
            trial = self.study.ask(fixed_distributions=dict(self._space))
            params = dict(trial.params)
        # A study that was in memory, and is gone, began anew to count.
        number = max(trial.number, *(known + 1 for known in self._trials), 0)
        self._trials[number] = trial
        trial.set_user_attr(_TRIAL, self._name(number))
        return number, params

    def attach(self, number: int, params: Mapping[str, Any]) -> None:
        """Go on with a trial that was asked for before the driver was killed."""
        name = self._name(number)
        trials = self.study.get_trials(deepcopy=False)
        found = next((one for one in trials if one.user_attrs.get(_TRIAL) == name), None)
        if found is None:  # the study was in memory, and is gone
            distributions = {} if callable(self._space) else dict(self._space)
            known = {key: value for key, value in params.items() if key in distributions}
            self.study.add_trial(
                self._optuna.trial.create_trial(
                    state=self._optuna.trial.TrialState.RUNNING,
                    params=known,
                    distributions={key: distributions[key] for key in known},
                    user_attrs={_TRIAL: name},
                )
            )
            found = self.study.get_trials(deepcopy=False)[-1]
        self._trials[number] = self._living(found)

    def take_left_over(self) -> None:
        """Ask first for trials that a killed driver asked for and did not write down.

        Those of another space fail, and those of a function: what it suggests may not be all parameters.
        """
        ours = f"{self._sweep}/"
        attached = {self._name(number) for number in self._trials}
        for one in self.study.get_trials(states=[self._optuna.trial.TrialState.RUNNING]):
            name = str(one.user_attrs.get(_TRIAL, ""))
            if not name.startswith(ours) or name in attached:
                continue
            if callable(self._space) or one.distributions != dict(self._space):
                self.study.tell(one.number, state=self._optuna.trial.TrialState.FAIL)
            else:
                self._left_over.append(self._living(one))

    def _living(self, frozen: Any) -> Any:
        return self._optuna.trial.Trial(self.study, frozen._trial_id)  # noqa: SLF001  no other door

    def is_running(self, number: int) -> bool:
        """Whether Optuna was not told yet how a trial ended."""
        state = self._frozen(number).state
        return bool(state == self._optuna.trial.TrialState.RUNNING)

    def report(self, number: int, iteration: int, loss: float) -> bool:
        """Report a loss; True if the trial is to stop.

        The answer is the same when a driver asks again because the one before it was killed.
        """
        trial, known = self._trials[number], self._frozen(number)
        states = self._optuna.trial.TrialState
        if known.state != states.RUNNING:
            return bool(known.state != states.COMPLETE)
        if _STOP in known.user_attrs:
            return True
        if iteration not in known.intermediate_values:
            trial.report(loss, iteration)
        stop = self.prunes and bool(trial.should_prune())
        if stop:
            trial.set_user_attr(_STOP, iteration)
        return stop

    def note(self, number: int, name: str, value: Any) -> None:
        """Keep something with the trial, for ``dagopt tune show`` and Optuna's dashboard."""
        self._trials[number].set_user_attr(name, value)

    def tell(self, number: int, status: str, loss: float | None) -> None:
        """Tell how a trial ended: ``complete``, ``pruned`` or ``failed``."""
        if not self.is_running(number):
            return
        states, trial = self._optuna.trial.TrialState, self._trials[number]
        if status == "complete" and loss is not None and math.isfinite(loss):
            self.study.tell(trial, loss)
        elif status == "pruned":
            self.study.tell(trial, state=states.PRUNED)
        else:
            self.study.tell(trial, state=states.FAIL)

    def give_up(self, kept: Collection[int]) -> None:
        """Fail all trials that run but these: nobody goes on with them."""
        for number in self._trials.keys() - set(kept):
            self.tell(number, "failed", None)

    def _name(self, number: int) -> str:
        return f"{self._sweep}/{number}"

    def _frozen(self, number: int) -> Any:
        """What the study knows of a trial; its own way to that reads all trials of a database."""
        return self.study._storage.get_trial(self._trials[number]._trial_id)  # noqa: SLF001


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
