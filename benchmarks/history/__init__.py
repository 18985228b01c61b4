"""The history study; `python -m benchmarks.history` runs it, see __main__."""
