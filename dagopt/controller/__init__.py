"""The live brains: ``step(event, now_s)`` in, instructions out."""
