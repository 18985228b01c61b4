"""The speed table; `python -m benchmarks.speed` makes it, see __main__."""
