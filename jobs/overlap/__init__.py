"""The overlap benchmark: what it runs, in which modes, and how it is measured."""
