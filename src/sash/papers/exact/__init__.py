"""Window joins that keep on disk what does not fit into memory (Exact, chapters 3 to 5): EWJ, RPWJ and AH-EWJ."""
