"""Sweeps of hyper-parameters on Spark, with trials merged so that they share accelerators."""
