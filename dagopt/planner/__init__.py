"""The planner process, started by the driver plugin: ``python -m dagopt.planner``."""
