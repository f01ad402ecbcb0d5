"""Moving training jobs together: which jobs, by which plan, and whether it pays."""
