"""What both engines share: a job with its places and counts, and what becomes of its changes."""
