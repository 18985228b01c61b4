"""Proof that a sped-up model is still the same model: what the reference pipeline computed, replayed through another one.

``reference`` records a pass of ``pipe(...)`` as it comes; ``replay`` feeds the recorded inputs to the parts of a model under
a profile, on a device or from other weights, and compares the outputs; ``checks`` holds the measures, gates and verdict.
"""
