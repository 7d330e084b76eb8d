"""Streams to try queries on: generated from a seed, or played from a recording."""
