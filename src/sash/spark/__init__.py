"""Runs a plan on Spark Structured Streaming. The only package that imports pyspark."""
