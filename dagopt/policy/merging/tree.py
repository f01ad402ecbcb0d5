"""Candidates in a tree: by input data set and position, then by model size, then by model type.

Only trials of one branch are merged with a shared pass: those that need the same batch next.
Within it neighbours are alike in size, and those of one type can be stacked.

Source: US patent text of the family "job merging for hyperparameter tuning", claim 4 (a tree
structure by input dataset and model size).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dagopt.model.trial import Candidate

Branch: TypeAlias = tuple[str, int]
"""Data set, and iterations done."""

Tree: TypeAlias = dict[Branch, dict[int, tuple[Candidate, ...]]]
"""Branch to size bucket to its candidates; all in order, the largest bucket first."""


def size_bucket(model_bytes: int) -> int:
    """Bucket of a model size: one for each power of two."""
    return model_bytes.bit_length()


def candidate_tree(candidates: Iterable[Candidate]) -> Tree:
    """The tree; candidates of a leaf by footprint, the largest first, then by number."""
    leaves: dict[tuple[str, int, int], list[Candidate]] = {}
    for one in candidates:
        key = (one.dataset, one.position, -size_bucket(one.footprint.model_bytes))
        leaves.setdefault(key, []).append(one)
    tree: Tree = {}
    for dataset, position, bucket in sorted(leaves):
        found = leaves[dataset, position, bucket]
        ordered = sorted(
            found, key=lambda one: (-one.footprint.own_bytes, one.model_type, one.trial)
        )
        tree.setdefault((dataset, position), {})[-bucket] = tuple(ordered)
    return tree


def in_order(buckets: dict[int, tuple[Candidate, ...]]) -> list[Candidate]:
    """The candidates of a branch: leaf after leaf, neighbours next to each other."""
    return [one for bucket in sorted(buckets, reverse=True) for one in buckets[bucket]]
