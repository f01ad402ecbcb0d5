"""Schedulers of others, written from their papers: what dagopt is compared with."""
