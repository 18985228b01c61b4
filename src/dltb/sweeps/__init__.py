"""Many runs of the loop tools as one sweep: a grid of settings, planned, carried out and put into a table.

A leg of a sweep is one tool with its own flags, and its run directory is the one that the tool always makes. So this
package is the one place that calls tools; what it adds is which legs there are, where they run, and what became of them.
Planning and collecting import no torch.
"""
