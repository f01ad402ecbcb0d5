"""Equivalence stages: where a CPU part ends and a GPU part begins, and which of them runs now."""
