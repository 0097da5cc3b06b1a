"""Official releases: fetched once into the user's cache, checked, and kept; nothing is committed here."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import httpx

from asymspec_agents import config
from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = ["fetch", "hub_file", "releases_folder"]

_TIMEOUT = httpx.Timeout(60.0, connect=15.0)
_CHUNK_BYTES = 1 << 20


def releases_folder() -> Path:
    """Where fetched files are kept: `releases` in ASYMSPEC_CACHE, or else in the user's cache folder."""
    chosen = config.from_env().cache_dir
    if chosen is not None:
        return chosen / "releases"
    try:
        import platformdirs
    except ImportError as error:
        raise MissingDependencyError("platformdirs", "engine") from error
    return platformdirs.user_cache_path("asymspec", appauthor=False) / "releases"


def fetch(url: str, *, sha256: str | None) -> Path:
    """The file at `url`, from the cache where it was fetched before; proxies are those of the environment.

    With `sha256` (hexadecimal) the bytes are checked each time, the cache's too, which are fetched again where
    they are others. The file appears under its name whole or not at all, so processes may fetch it at once.
    Raises ConfigurationError that says why there is no file and how to give one with `--data`.
    """
    name = unquote(urlsplit(url).path).rpartition("/")[2] or "file"
    folder = releases_folder() / hashlib.sha256(url.encode()).hexdigest()[:16]
    path = folder / name
    if path.is_file() and (sha256 is None or _digest(path) == sha256.lower()):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=folder)
    except OSError as error:
        raise ConfigurationError(f"{url} cannot be kept in {folder}: {error}. {_by_hand(url)}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            found = _download(url, file)
        if sha256 is not None and found != sha256.lower():
            raise ConfigurationError(
                f"{url} has sha256 {found} instead of {sha256}, so it is not the release that is meant here; "
                "nothing was kept. " + _by_hand(url)
            )
        os.replace(partial, path)
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"{url} cannot be fetched: {_reason(error)}. {_by_hand(url)}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
    return path


def hub_file(repo: str, filename: str, *, revision: str | None = None) -> Path:
    """A file of a Hugging Face dataset, through the hub's own cache, login and offline switch.

    Raises ConfigurationError: where the owner grants access by hand or by a click, it names the page with the
    terms; always it says how to give the file with `--data`.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            EntryNotFoundError,
            GatedRepoError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError as error:
        raise MissingDependencyError("huggingface_hub", "engine") from error
    page = f"https://huggingface.co/datasets/{repo}"
    try:
        return Path(hf_hub_download(repo, filename, repo_type="dataset", revision=revision))
    except Exception as error:  # the hub library raises its own, its HTTP client's and the system's errors
        if isinstance(error, GatedRepoError):
            reason = f"read and accept its terms on {page}, then log in with `hf auth login`"
        elif isinstance(error, RepositoryNotFoundError):
            reason = f"the hub has no such dataset, or it is not open to you ({page})"
        elif isinstance(error, RevisionNotFoundError):
            reason = f"it has no revision {revision!r}"
        elif isinstance(error, LocalEntryNotFoundError):  # also an EntryNotFoundError
            reason = f"it was not fetched before, and no hub answered ({_reason(error.__cause__ or error)})"
        elif isinstance(error, EntryNotFoundError):
            reason = "the dataset has no such file"
        else:
            reason = _reason(error)
        raise ConfigurationError(f"{filename} of {repo} cannot be had: {reason}. {_by_hand(page)}") from error


def _download(url: str, file: BinaryIO) -> str:
    """Writes the body to `file`; returns its sha256."""
    digest = hashlib.sha256()
    with httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _reason(error: BaseException) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server answered {error.response.status_code} {error.response.reason_phrase}".rstrip()
    return f"{type(error).__name__}: {str(error).strip()[:200]}".splitlines()[0]


def _by_hand(url: str) -> str:
    return f"Or get it by hand from {url} and pass its path: --data PATH"
