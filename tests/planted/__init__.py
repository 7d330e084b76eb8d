"""Mistakes that are planted into a copy of Sash, one at a time, to see which test notices."""
