"""What Sash costs, side by side with Spark's own join and with DuckDB, and as its windows grow."""
