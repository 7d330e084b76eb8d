"""The figures of chapter 6 of Exact: a stream joins a relation on disk."""
