"""What travels with a request to the engine: `SamplingParams.extra_args["asymspec"]`.

The prompt of the request is the compressed view; the full view's ids come here as little-endian int32, since
long lists of numbers are slow to copy between processes. The values are plain, as message packs carry no
types.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import PROTOCOL_VERSION, AsymSpecOptions

__all__ = ["BYTES_PER_ID", "EXTRA_ARG", "AsymSpecArgs", "pack_ids", "unpack_ids"]

EXTRA_ARG = "asymspec"
_FIELDS = {"version", "full_ids", "options", "salt", "num_images", "base_ids"}
BYTES_PER_ID = 4


def pack_ids(ids: Sequence[int]) -> bytes:
    """The ids as little-endian int32. Raises ConfigurationError for what is no token id."""
    try:
        packed = array("i", ids)
    except (TypeError, OverflowError) as error:
        raise ConfigurationError(f"asymspec.full_ids: not all are token ids ({error})") from error
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_ids(packed: bytes) -> array[int]:
    """The ids that `pack_ids` packed."""
    ids = array("i")
    ids.frombytes(packed)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


@dataclass(frozen=True, slots=True)
class AsymSpecArgs:
    """The full view's ids (as `pack_ids` packs them), the options of decoding, and the salt of the caches.

    Requests share cached keys and values of the drafter's views only where `salt` is the same. `num_images`:
    how many images the full view has; they travel with the request as vLLM's own do (see images.py).
    `base_ids` is the compressed view as the drafter reads it, where that is not what the verifier reads; of
    a drafter of another family both views are in its own tokens.
    """

    full_ids: bytes
    options: AsymSpecOptions
    salt: str | None = None
    num_images: int = 0
    base_ids: bytes = b""

    def __post_init__(self) -> None:
        if not self.full_ids:
            raise ConfigurationError("asymspec.full_ids: the full view is empty")
        for name in ("full_ids", "base_ids"):
            ids: bytes = getattr(self, name)
            if len(ids) % BYTES_PER_ID:
                raise ConfigurationError(
                    f"asymspec.{name}: {len(ids)} bytes are no whole number of int32 values"
                )
            if min(unpack_ids(ids), default=0) < 0:  # would index a table from its end
                raise ConfigurationError(f"asymspec.{name}: a token id is negative")

    @property
    def num_full_tokens(self) -> int:
        """The length of the full view."""
        return len(self.full_ids) // BYTES_PER_ID

    @property
    def num_base_tokens(self) -> int | None:
        """The length of the compressed view as the drafter reads it, where the verifier reads another."""
        return len(self.base_ids) // BYTES_PER_ID or None

    def pack(self) -> dict[str, Any]:
        """The value of `extra_args["asymspec"]`."""
        options = self.options.model_dump(
            mode="json", include=set(AsymSpecOptions.model_fields), exclude_unset=True
        )
        packed = {
            "version": PROTOCOL_VERSION,
            "full_ids": self.full_ids,
            "options": options,
            "salt": self.salt,
            "num_images": self.num_images,
        }
        return packed | ({"base_ids": self.base_ids} if self.base_ids else {})

    @classmethod
    def of(cls, extra_args: Mapping[str, Any] | None) -> AsymSpecArgs | None:
        """The arguments in a request's `extra_args`, None for a plain request. Raises ConfigurationError."""
        packed = None if extra_args is None else extra_args.get(EXTRA_ARG)
        if packed is None:
            return None
        if not isinstance(packed, Mapping) or set(packed) - _FIELDS or "full_ids" not in packed:
            raise ConfigurationError(f"asymspec: not an object with the fields {', '.join(sorted(_FIELDS))}")
        if packed.get("version") != PROTOCOL_VERSION:
            raise ConfigurationError(
                f"asymspec.version={packed.get('version')!r}; this server speaks {PROTOCOL_VERSION}"
            )
        options, salt = packed.get("options", {}), packed.get("salt")
        full_ids, base_ids = (_packed(name, packed.get(name, b"")) for name in ("full_ids", "base_ids"))
        if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
            raise ConfigurationError("asymspec.options: not an object")
        if salt is not None and not isinstance(salt, str):
            raise ConfigurationError("asymspec.salt: not a text")
        num_images = packed.get("num_images", 0)
        if not isinstance(num_images, int) or isinstance(num_images, bool) or num_images < 0:
            raise ConfigurationError(f"asymspec.num_images={num_images!r} is not a number of images")
        return cls(full_ids, AsymSpecOptions.of(**options), salt, num_images, base_ids)


def _packed(name: str, ids: Any) -> bytes:
    if isinstance(ids, list | tuple):  # a plain list of numbers, from a client without this package
        ids = pack_ids(ids)
    if not isinstance(ids, bytes | bytearray | memoryview):
        raise ConfigurationError(f"asymspec.{name}: neither int32 bytes nor a list of token ids")
    return bytes(ids)
