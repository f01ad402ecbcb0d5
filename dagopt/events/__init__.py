"""Spark's event logs as values: the only part of dagopt that knows their JSON."""
