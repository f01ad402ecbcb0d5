"""Which trials of a sweep share an accelerator, and how they run there."""
