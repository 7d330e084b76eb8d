"""Generators of stream data."""
