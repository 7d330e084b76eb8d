"""Figures and claims of Exact, chapters 3 to 5: joins whose windows are larger than memory."""
