"""Makers of what ships with the project but is made, not written: example clips and embedded weights. Not installed."""
