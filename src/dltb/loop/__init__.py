"""The loop P_n = f(state(P_{n-1}), N_n, motion_n, artistic direction), as a generator with one piece of state.

Knows nothing of files, models or metrics: a model reaches it as a callable, its results leave it as step results.
"""
