"""What may be done with attachments: limits of size, time and memory, which URLs, who sees images."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigurationError
from ..pixels import MAX_SEEN_IMAGES, MAX_SEEN_PIXELS

__all__ = ["AttachmentPolicy", "RemotePolicy"]

MAX_TIMEOUT_S = 3_600
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePolicy:
    """Which URLs may be fetched, and for how long; raises ConfigurationError.

    Only addresses that are public on the internet are reached, and those in `networks` (such as
    "10.1.0.0/16"). All addresses of a host are checked and the connection goes to a checked one; so it is at
    each of at most `max_redirects` redirects. `timeout_s` is for one attachment, all redirects together.
    """

    schemes: tuple[str, ...] = ("https",)
    ports: tuple[int, ...] = (443,)
    networks: tuple[str, ...] = ()
    max_redirects: int = 3
    timeout_s: float = 15.0

    def __post_init__(self) -> None:
        is_known = isinstance(self.schemes, tuple) and set(self.schemes) <= {"https", "http"}
        _check(self, "schemes", is_known and bool(self.schemes), 'a tuple of "https" and "http"')
        is_ports = isinstance(self.ports, tuple) and all(_is_int(port, 1, 65_535) for port in self.ports)
        _check(self, "ports", is_ports, "a tuple of integers from 1 to 65535")
        _check(self, "networks", _are_networks(self.networks), 'a tuple of networks such as "10.1.0.0/16"')
        _check(self, "max_redirects", _is_int(self.max_redirects, 0, 20), "an integer from 0 to 20")
        _check(self, "timeout_s", _is_time(self.timeout_s), f"in (0, {MAX_TIMEOUT_S:,}] seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentPolicy:
    """Limits of what is read, and who sees images; raises ConfigurationError.

    `drafter_sees`: "text" puts an image's text into both views; with "images" the full view keeps each image
    that comes with its bytes and can be decoded (PNG, JPEG, GIF, WebP, BMP; at most `max_seen_pixels` and
    20 MiB, at most 200 times as long as wide), and others are text in both. So are the oldest where there are
    more than `max_seen_images`, several at a time, so that the view seldom changes.
    `remote`: None fetches nothing. `max_file_bytes`: one file, decoded. `max_pages`: pages, slides or sheets
    read of a document; `max_text_chars`: characters of its text. `max_unpacked_bytes`, `max_unpack_ratio` (to
    the packed size, above 16 MiB) and `max_entries` are for zipped formats. `max_pixels`: one image.
    `max_ocr_pages`: pages without a text layer, of one document, that a text reader is shown.
    `convert_timeout_s` is for one document, `describe_timeout_s` for each look at an image.
    `max_memory_bytes`: address space of the converting process where the system can limit it, None for no
    limit. `max_cached_bytes`: texts that are remembered.
    """

    drafter_sees: Literal["text", "images"] = "text"
    max_seen_images: int = MAX_SEEN_IMAGES
    max_seen_pixels: int = MAX_SEEN_PIXELS
    remote: RemotePolicy | None = None
    max_file_bytes: int = 50 * MIB
    max_pages: int = 2_000
    max_text_chars: int = 4_000_000
    max_unpacked_bytes: int = 512 * MIB
    max_unpack_ratio: int = 200
    max_entries: int = 10_000
    max_pixels: int = 50_000_000
    max_ocr_pages: int = 5
    convert_timeout_s: float = 30.0
    describe_timeout_s: float = 60.0
    max_memory_bytes: int | None = 2_048 * MIB
    max_cached_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        _check(self, "drafter_sees", self.drafter_sees in ("text", "images"), "'text' or 'images'")
        _check(
            self,
            "remote",
            self.remote is None or isinstance(self.remote, RemotePolicy),
            "None or a RemotePolicy",
        )
        for name, least in (
            ("max_seen_images", 0),
            ("max_seen_pixels", 1),
            ("max_file_bytes", 1),
            ("max_pages", 1),
            ("max_text_chars", 1),
            ("max_unpacked_bytes", 1),
            ("max_unpack_ratio", 1),
            ("max_entries", 1),
            ("max_pixels", 1),
            ("max_ocr_pages", 0),
            ("max_cached_bytes", 0),
        ):
            _check(self, name, _is_int(getattr(self, name), least), f"an integer of at least {least}")
        for name in ("convert_timeout_s", "describe_timeout_s"):
            _check(self, name, _is_time(getattr(self, name)), f"in (0, {MAX_TIMEOUT_S:,}] seconds")
        least_memory = 256 * MIB  # what the interpreter and the converters take before they read anything
        is_memory = self.max_memory_bytes is None or _is_int(self.max_memory_bytes, least_memory)
        _check(self, "max_memory_bytes", is_memory, f"None or an integer of at least {least_memory:,}")


def _check(policy: object, name: str, is_valid: bool, limit: str) -> None:
    if not is_valid:
        raise ConfigurationError(f"{name}={getattr(policy, name)!r}: must be {limit}")


def _is_int(value: object, least: int, most: int | None = None) -> bool:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return is_int and value >= least and (most is None or value <= most)  # type: ignore[operator]


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT_S


def _are_networks(networks: object) -> bool:
    if not isinstance(networks, tuple) or not all(isinstance(network, str) for network in networks):
        return False
    try:
        for network in networks:
            ipaddress.ip_network(network)
    except ValueError:
        return False
    return True
