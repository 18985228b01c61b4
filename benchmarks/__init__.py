"""Speed and memory, as ratios measured in one run against plain code that does the same work."""
