"""What answers should be: a reference evaluator, and the comparison with DuckDB. Nothing that runs queries is asked."""
