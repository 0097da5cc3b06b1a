"""Reads a prompt by name."""

from __future__ import annotations

from pathlib import Path

__all__ = ["prompt_named"]


def prompt_named(name: str) -> str:
    """The prompt of that name, without the line end at its end."""
    return (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")
