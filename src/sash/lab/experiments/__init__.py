"""The experiments of the papers, one file per figure, with what the papers claim as checks."""
