"""EXPLAIN: plans as text for people."""
