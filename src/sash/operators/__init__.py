"""The operators of a query plan. Each takes signed batches and a clock, and keeps its state as logs of blocks."""
