"""Advice as text, tables and pages."""
