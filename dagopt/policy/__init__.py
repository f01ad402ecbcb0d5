"""Choices, pure and seeded: one package a mechanism, one module an algorithm."""
