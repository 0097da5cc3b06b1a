"""Captioners: any OpenAI-compatible endpoint with vision, and any image-to-text model of transformers."""

from __future__ import annotations

import base64
import io
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from ..errors import BackendError, ConfigurationError, MissingDependencyError

__all__ = ["EndpointCaptioner", "TransformersCaptioner"]

_PROMPT = (
    "Describe this image for a reader who cannot see it, in at most 80 words: what it shows, names, numbers "
    "and words in it that matter. No opinions."
)
_RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_PAUSE_S = 0.5
_MAX_ANSWER_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCaptioner:
    """A Captioner that asks `model` at `base_url` (which ends in /v1 for most servers), greedily.

    A failed connection, a busy or a failing server is tried again `max_retries` times. Raises
    ConfigurationError; `describe` raises BackendError.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    prompt: str = _PROMPT
    max_tokens: int = 200
    timeout_s: float = 30.0
    max_retries: int = 2
    max_image_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigurationError("base_url must begin with http:// or https://")
        for name, least in (("max_tokens", 1), ("max_retries", 0), ("max_image_bytes", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigurationError(f"{name}={value!r}: must be an integer of at least {least}")
        if not 0 < self.timeout_s <= 3_600:
            raise ConfigurationError(f"timeout_s={self.timeout_s!r}: must be in (0, 3,600] seconds")

    @property
    def configuration(self) -> str:
        """Without the key, and without the address: the model and what it is asked make the caption."""
        return f"endpoint/1(model={self.model},max_tokens={self.max_tokens},prompt={self.prompt})"

    def describe(self, png: bytes) -> str:
        if len(png) > self.max_image_bytes:
            png = _as_jpeg(png)
        if len(png) > self.max_image_bytes:
            raise BackendError(f"the image is larger than {self.max_image_bytes:,} bytes")
        kind = "png" if png.startswith(b"\x89PNG") else "jpeg"
        url = f"data:image/{kind};base64,{base64.b64encode(png).decode()}"
        content = [{"type": "text", "text": self.prompt}, {"type": "image_url", "image_url": {"url": url}}]
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        for attempt in range(self.max_retries + 1):
            if attempt:
                time.sleep(_PAUSE_S * 2 ** min(attempt - 1, 5))
            is_last = attempt == self.max_retries
            try:
                answer = self._post(body)
            except httpx.HTTPError as error:
                if is_last:
                    raise BackendError(f"the captioner's server failed: {type(error).__name__}") from None
                continue
            if answer.status_code in _RETRIED_STATUSES and not is_last:
                continue
            return _caption(answer)
        raise BackendError("the captioner's server failed")

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return httpx.post(
            f"{self.base_url.rstrip('/')}/chat/completions",
            json=body,
            headers=headers,
            timeout=self.timeout_s,
        )


def _caption(answer: httpx.Response) -> str:
    if answer.status_code != 200:
        raise BackendError(f"the captioner's server answered with status {answer.status_code}")
    if len(answer.content) > _MAX_ANSWER_BYTES:
        raise BackendError("the captioner's server answered with too much")
    try:
        text = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        raise BackendError("the captioner's server answered with something else than a caption") from None
    if not isinstance(text, str) or not text.strip():
        raise BackendError("the captioner's server answered without a caption")
    return text.strip()


def _as_jpeg(png: bytes) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


class TransformersCaptioner:
    """A Captioner that runs an image-to-text model (such as BLIP) in this process, greedily.

    `model` is a folder or a hub name, loaded at the first image, without code of its own. Raises
    MissingDependencyError without the extra `engine`.
    """

    def __init__(self, model: str, *, max_tokens: int = 60, device: str = "cpu") -> None:
        if not isinstance(max_tokens, int) or max_tokens < 1:
            raise ConfigurationError(f"max_tokens={max_tokens!r}: must be an integer of at least 1")
        try:
            import transformers  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError("transformers", "engine") from error
        self._name, self._max_tokens, self._device = model, max_tokens, device
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def configuration(self) -> str:
        return f"transformers/1(model={self._name},max_tokens={self._max_tokens})"

    def describe(self, png: bytes) -> str:
        import torch
        from PIL import Image

        with self._lock:
            processor, model = self._load()
            inputs = processor(images=Image.open(io.BytesIO(png)).convert("RGB"), return_tensors="pt")
            with torch.inference_mode():
                ids = model.generate(
                    **inputs.to(self._device), max_new_tokens=self._max_tokens, do_sample=False
                )
        text: str = processor.batch_decode(ids, skip_special_tokens=True)[0]
        return text.strip()

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            import transformers

            auto: Any = transformers  # whose types are half there
            processor = auto.AutoProcessor.from_pretrained(self._name, trust_remote_code=False)
            model = auto.AutoModelForImageTextToText.from_pretrained(self._name, trust_remote_code=False)
            self._loaded = (processor, model.to(self._device).eval())
        return self._loaded
