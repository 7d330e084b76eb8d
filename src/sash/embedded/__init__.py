"""Runs a plan in this process: Arrow in, Arrow out, no JVM."""
