"""Simulated hosts, links and executors that drive the real controllers."""
