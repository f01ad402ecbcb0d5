"""The parts of the benchmark of job merging."""
