"""What the parts of GPU stages cost: seen in this application, or in the profile of earlier ones.

A stage in Spark's own form shows nothing of its parts, so only what ran between two inserted
shuffles is learned from; but it may contradict what is known, which is then forgotten. Tasks that
started a Python worker also load what the user's functions import, once in each process: they count
only where there are no others, and only until there are.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields, replace

from dagopt.model.pipeline import PartitionCosts
from dagopt.model.stage_profile import StageProfiles, gpu_part_signature
from dagopt.model.wire_gpu import SliceDone, TaskSums
from dagopt.units import format_s

MAX_SIGNATURES = 4096
"""Stages whose costs are remembered; the least recently seen goes first."""

_NEW_WEIGHT = 0.5

_MAX_FACTOR = 1.5
"""Tasks that take this many times longer or shorter than known costs say contradict them,"""

_MIN_OFF_S = 0.1
"""if it is by more seconds than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    costs: PartitionCosts

    is_cold: bool
    """Whether all tasks of one part started a Python worker."""

    is_cpu_only_cold: bool = False
    """The same of the CPU-only form; or it was given up before it had ended."""


class GpuCosts:
    """Costs of a partition, by the number of the stage's physical plan."""

    def __init__(self, profiles: StageProfiles | None = None) -> None:
        """Start from the profile of earlier applications, if there is one."""
        self._profiles = profiles
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._forgotten: dict[str, str] = {}

    def find(self, signature: str) -> PartitionCosts | None:
        """What is known of the stage, this application first."""
        seen = self._seen.get(signature)
        if seen is not None:
            return seen.costs
        return None if signature in self._forgotten else self._from_profile(signature)

    def saw_fused(self, signature: str, tasks: TaskSums, *, told_s: float, all_told: bool) -> None:
        """Forget the costs of a stage whose fused tasks contradict them, so that it is measured anew.

        That once a stage: costs that are contradicted again stay.

        Args:
            signature: of the stage.
            tasks: all of its tasks, at least one.
            told_s: seconds that the known costs gave a task.
            all_told: whether ``told_s`` is for all operators of the stage. If not, what its tasks take
                longer is taken for the time of those that follow the GPU operator.
        """
        shortest_s, longest_s = _fused_s(tasks)
        is_longer = _is_off(told_s, shortest_s)
        if is_longer and not all_told:
            self._saw_rest_s(signature, shortest_s - told_s)
            return
        if not is_longer and not _is_off(longest_s, told_s):
            return
        if signature in self._forgotten or len(self._forgotten) >= MAX_SIGNATURES:
            return
        took_s = shortest_s if is_longer else longest_s
        self._forgotten[signature] = (
            f"its fused tasks took {format_s(took_s)} where {format_s(told_s)} were predicted"
        )
        self._seen.pop(signature, None)

    def _saw_rest_s(self, signature: str, rest_s: float) -> None:
        known = self.find(signature)
        if known is not None and not known.rest_s:
            seen = self._seen.get(signature, _Seen(costs=known, is_cold=False))
            self._remember(signature, replace(seen, costs=replace(known, rest_s=rest_s)))

    def why_forgotten(self, signature: str) -> str | None:
        """What contradicted the costs that were known once; None where nothing did."""
        return self._forgotten.get(signature)

    def is_cold(self, signature: str) -> bool:
        """Whether it is known only from tasks that started a Python worker."""
        seen = self._seen.get(signature)
        return seen is not None and seen.is_cold

    def saw_slice(self, signature: str, event: SliceDone) -> None:
        """Learn from a slice behind a shuffle, whose GPU stage held no CPU operator."""
        cpu, gpu = event.cpu, event.gpu
        old = self._seen.get(signature)
        known = self.find(signature)
        costs = PartitionCosts(
            # Never 0, which would say that there is no CPU operator in front.
            cpu_s=max(1e-3, work_s(cpu, reads_own=True)),
            gpu_s=work_s(gpu),
            input_bytes=cpu.bytes_written / cpu.num_tasks,
            output_bytes=gpu.bytes_written / gpu.num_tasks if event.boundary_after else 0.0,
            rest_s=known.rest_s if known is not None else 0.0,
            cpu_only_s=known.cpu_only_s if known is not None else None,
        )
        if not event.boundary_after and known is not None:
            costs = replace(costs, output_bytes=known.output_bytes)
        is_cold = not (cpu.warm_tasks and gpu.warm_tasks)
        if old is not None:
            if old.is_cold == is_cold:
                costs = _mean(old.costs, costs)
            elif is_cold:
                return
        cpu_only_cold = old is not None and old.is_cpu_only_cold
        self._remember(
            signature, _Seen(costs=costs, is_cold=is_cold, is_cpu_only_cold=cpu_only_cold)
        )

    def saw_rest(self, signature: str, rest: TaskSums) -> None:
        """Learn from the stage of the CPU operators behind a stage that is known."""
        seen = self._seen.get(signature)
        if seen is None or rest.num_tasks < 1:
            return
        rest_s, old_s = work_s(rest), seen.costs.rest_s
        if old_s > 0:
            rest_s = (1 - _NEW_WEIGHT) * old_s + _NEW_WEIGHT * rest_s
        self._remember(signature, replace(seen, costs=replace(seen.costs, rest_s=rest_s)))

    def saw_cpu_only(self, signature: str, cpu_only: TaskSums) -> None:
        """Learn from a slice in its CPU-only form, whose tasks ran the operators in front too."""
        known = self.find(signature)
        if known is None or cpu_only.num_tasks < 1:
            return
        old = self._seen.get(signature)
        was_cold, is_cold = old is not None and old.is_cpu_only_cold, not cpu_only.warm_tasks
        operator_s = max(0.0, work_s(cpu_only, reads_own=True) - known.cpu_s)
        if known.cpu_only_s is not None and was_cold == is_cold:
            operator_s = (1 - _NEW_WEIGHT) * known.cpu_only_s + _NEW_WEIGHT * operator_s
        elif known.cpu_only_s is not None and is_cold:
            return
        self._saw_operator(signature, known, operator_s, is_cold=is_cold)

    def saw_slow(self, signature: str, task_s: float) -> None:
        """Learn from a CPU-only form that was given up, whose tasks had taken so long until then.

        Less than is known, or than the GPU takes where nothing is, tells nothing.
        """
        known = self.find(signature)
        if known is None:
            return
        least_s = known.gpu_s if known.cpu_only_s is None else known.cpu_only_s
        if task_s - known.cpu_s > least_s:
            self._saw_operator(signature, known, task_s - known.cpu_s, is_cold=True)

    def _saw_operator(
        self, signature: str, known: PartitionCosts, operator_s: float, *, is_cold: bool
    ) -> None:
        old = self._seen.get(signature)
        self._remember(
            signature,
            _Seen(
                costs=replace(known, cpu_only_s=operator_s),
                is_cold=old is not None and old.is_cold,
                is_cpu_only_cold=is_cold,
            ),
        )

    def _remember(self, signature: str, seen: _Seen) -> None:
        self._seen[signature] = seen
        self._seen.move_to_end(signature)
        while len(self._seen) > MAX_SIGNATURES:
            self._seen.popitem(last=False)

    def _from_profile(self, signature: str) -> PartitionCosts | None:
        if self._profiles is None:
            return None
        found = self._profiles.by_signature
        cpu = found.get(gpu_part_signature(signature, "cpu"))
        gpu = found.get(gpu_part_signature(signature, "gpu"))
        rest = found.get(gpu_part_signature(signature, "rest"))
        cpu_only = found.get(gpu_part_signature(signature, "cpu-only"))
        if cpu is None or gpu is None:
            return None
        return PartitionCosts(
            cpu_s=max(1e-3, cpu.cpu_s_per_task),
            gpu_s=gpu.cpu_s_per_task,
            input_bytes=gpu.read_bytes_per_task,
            output_bytes=rest.read_bytes_per_task if rest is not None else 0.0,
            rest_s=rest.cpu_s_per_task if rest is not None else 0.0,
            cpu_only_s=(
                max(0.0, cpu_only.cpu_s_per_task - cpu.cpu_s_per_task)
                if cpu_only is not None
                else None
            ),
        )


def work_s(of: TaskSums, *, reads_own: bool = False) -> float:
    """Seconds that a task's operators ran, a mean of at least one task.

    Args:
        of: the tasks.
        reads_own: whether what they read is not an inserted shuffle's, and so part of their work.
    """
    if of.warm_tasks:
        waited_ms = of.warm_write_ms + (0 if reads_own else of.warm_read_ms)
        return max(0, of.warm_run_ms - waited_ms) / 1000 / of.warm_tasks
    waited_ms = of.start_ms + of.write_ms + (0 if reads_own else of.read_ms)
    return max(0, of.run_ms - waited_ms) / 1000 / of.num_tasks


def _fused_s(of: TaskSums) -> tuple[float, float]:
    """Least and most seconds that a task's operators can be said to have run, all in one stage.

    Partitions are of unlike size, so the mean over all tasks counts; but tasks that started a Python
    worker also loaded what functions import, and so tell only what it was at most.
    """
    mean_s = max(0, of.run_ms - of.start_ms - of.write_ms) / 1000 / of.num_tasks
    warm_s = work_s(of, reads_own=True) if of.warm_tasks else 0.0
    return min(mean_s, warm_s), max(mean_s, warm_s)


def _is_off(less_s: float, more_s: float) -> bool:
    return more_s > less_s * _MAX_FACTOR and more_s > less_s + _MIN_OFF_S


def _mean(old: PartitionCosts, new: PartitionCosts) -> PartitionCosts:
    values = {
        one.name: (1 - _NEW_WEIGHT) * getattr(old, one.name) + _NEW_WEIGHT * getattr(new, one.name)
        for one in fields(PartitionCosts)
        if getattr(old, one.name) is not None and getattr(new, one.name) is not None
    }
    return PartitionCosts(**values)
