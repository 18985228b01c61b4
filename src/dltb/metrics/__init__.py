"""Numbers about frames and runs. Knows neither models nor options."""
