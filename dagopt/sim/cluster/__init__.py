"""Clusters of accelerators on which training jobs share time: jobs, measurements, policies."""
