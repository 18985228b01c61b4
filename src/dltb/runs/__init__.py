"""A run put together: model, sources, conditioning and run directory, as the tools and later drivers need it.

The layers below know nothing of each other; this one introduces them.
"""
