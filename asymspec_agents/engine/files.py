"""Reads what transformers makes of a model's folder; whatever is wrong with the files, one error says so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from ..errors import AsymSpecError, WeightsError

__all__ = ["read_config", "reading"]


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises WeightsError, `what` and the reason in one line, for any error but the project's own.

    Broken files end transformers in many ways: validators of its own, TypeError, bare exceptions.
    """
    try:
        yield
    except (AsymSpecError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise WeightsError(f"{what}: {reason}") from error


def read_config(folder: Path | str, kind: str = "a model") -> Any:
    """The configuration in a local folder of `kind`; raises WeightsError where transformers reads none."""
    with reading(f"cannot load {kind} from {folder}"):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
