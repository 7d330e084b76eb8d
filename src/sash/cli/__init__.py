"""The `sash` command: one file for each command, and how results are shown."""
