"""`GET /v1/asymspec`: what an AsymSpec server says of itself, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .._version import __version__
from ..backends.base import Capabilities
from ..errors import NotAsymSpecError
from ..messages import deepest, index_path
from ..protocol import PROTOCOL_VERSION

__all__ = ["PATH", "ServerInfo"]

PATH = "/v1/asymspec"


class ServerInfo(BaseModel):
    """The protocol's version, both models, the modes, both views' longest prompts in tokens.

    `tokenize`: the server counts prompts at `POST /tokenize`. A limit of None is unknown. `cross_family`: the
    drafter has a vocabulary of its own, in whose tokens its limit is. `sees_images`: it sees the images of a
    full view, up to `max_images` of `max_image_pixels` each.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    version: int = PROTOCOL_VERSION
    verifier: str
    drafter: str | None = None
    modes: tuple[str, ...] = ()
    max_verifier_tokens: int | None = Field(default=None, ge=1)
    max_drafter_tokens: int | None = Field(default=None, ge=1)
    tokenize: bool = False
    cross_family: bool = False
    sees_images: bool = False
    max_images: int | None = Field(default=None, ge=1)
    max_image_pixels: int | None = Field(default=None, ge=1)
    server: str = f"asymspec-agents/{__version__}"

    @classmethod
    def of(cls, capabilities: Capabilities, *, verifier: str, tokenize: bool) -> ServerInfo:
        """What a server says that answers with such a backend, under this model name."""
        return cls(
            verifier=verifier,
            drafter=capabilities.drafter,
            modes=capabilities.modes,
            max_verifier_tokens=capabilities.max_verifier_tokens,
            max_drafter_tokens=capabilities.max_drafter_tokens,
            tokenize=tokenize,
            cross_family=capabilities.cross_family,
            sees_images=capabilities.sees_images,
            max_images=capabilities.max_images,
            max_image_pixels=capabilities.max_image_pixels,
        )

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> ServerInfo:
        """The answer of a server. Raises NotAsymSpecError for another version or something else entirely."""
        version = answer.get("version")
        if isinstance(version, int) and version != PROTOCOL_VERSION:
            raise NotAsymSpecError(
                f"the server speaks version {version} of the AsymSpec protocol, this client version "
                f"{PROTOCOL_VERSION}; install matching releases of asymspec-agents"
            )
        try:
            return cls.model_validate(answer)
        except ValidationError as error:
            problem = deepest(error)
            place = index_path(problem["loc"]).removeprefix(".")
            raise NotAsymSpecError(f"{PATH} answers, but {place}: {problem['msg']}") from error

    def capabilities(self) -> Capabilities:
        """The same as a backend says it."""
        return Capabilities(
            verifier=self.verifier,
            drafter=self.drafter,
            modes=self.modes,
            max_verifier_tokens=self.max_verifier_tokens,
            max_drafter_tokens=self.max_drafter_tokens,
            cross_family=self.cross_family,
            sees_images=self.sees_images,
            max_images=self.max_images,
            max_image_pixels=self.max_image_pixels,
        )
