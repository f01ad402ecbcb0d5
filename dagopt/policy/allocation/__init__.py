"""Which accelerators each training job holds: what one more gains, against what it costs."""
