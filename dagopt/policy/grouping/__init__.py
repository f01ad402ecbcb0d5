"""Task grouping: when each task of a stage starts."""
