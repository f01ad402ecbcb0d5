"""The parts of the benchmark of GPU stages."""
