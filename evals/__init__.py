"""Evaluation: benchmarks over every arm and view, with costs and paired statistics (`python -m evals`)."""
