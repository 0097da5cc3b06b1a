"""What runs in the converting process: files that others made are opened there and nowhere else."""

__all__: list[str] = []
