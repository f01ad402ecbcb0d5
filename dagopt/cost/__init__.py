"""Predictions: arrays in, arrays out."""
