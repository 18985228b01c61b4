"""The command line: option dataclasses become argparse groups, and errors become one line and an exit code.

Nothing here imports anything heavier than argparse, so that every tool's ``--help`` answers at once.
"""
