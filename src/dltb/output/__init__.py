"""Run directories: names, run.json and steps.jsonl, checkpoints, PNG and mp4 files, all written behind the loop."""
