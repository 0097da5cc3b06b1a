"""The suites: one family of benchmarks a module, and `registry.py`, which knows them by name."""

from .registry import SUITES, suite_named

__all__ = ["SUITES", "suite_named"]
