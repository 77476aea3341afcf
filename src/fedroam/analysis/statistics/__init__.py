"""Statistics: tests over seeds, verdicts, thresholds."""
