"""Prompts kept as text files beside this module; LICENSES.txt says whose they are."""

from .reading import prompt_named

__all__ = ["prompt_named"]
