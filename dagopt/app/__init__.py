"""Use cases, a verb each."""
