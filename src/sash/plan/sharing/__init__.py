"""Queries that share a join: who does, the plan that they have together, and where their conditions are applied."""
