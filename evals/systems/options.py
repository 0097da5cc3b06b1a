"""What a run is told of its models: two local ones, or a server."""

from __future__ import annotations

from dataclasses import dataclass, field

from asymspec_agents.errors import ConfigurationError

from ..cells import Reader

__all__ = ["SystemOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """Which models answer, and what makes their views.

    Without `url` the models run in this process: `verifier` and `drafter` are folders, presets or hub names
    (None: the default pair) in `dtype` on `device` (None: where there is one, CUDA); `vocab_map` ("auto" or a
    file) lets a drafter of another tokenizer family take part. With `url` a server
    answers: `model` is the verifier's name there (None: what the server says), `drafter_model` the drafter's,
    where it is served by itself: there, or at `drafter_url` (with `drafter_api_key`: one server's key is
    never sent to another), a server of any kind for the drafter alone (where `drafter_model` may be None if
    it serves one model only). `verifier_params` and `drafter_params` are numbers of parameters, for costs:
    those of local models are counted, a server's are unknown unless given. `tokenizer` names the model whose
    tokenizer measures a server's views (None: an estimate). `llmlingua` is the checkpoint of
    LLMLingua-2, for views by that method. `verifier_sees_images`, `drafter_sees_images`: that model of the
    server does (local ones say so themselves); a model that does not is given text. Raises
    ConfigurationError.
    """

    verifier: str | None = None
    drafter: str | None = None
    dtype: str = "bfloat16"
    device: str | None = None
    vocab_map: str | None = None
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    drafter_model: str | None = None
    drafter_url: str | None = None
    drafter_api_key: str | None = field(default=None, repr=False)
    verifier_params: int | None = None
    drafter_params: int | None = None
    tokenizer: str | None = None
    llmlingua: str | None = None
    verifier_sees_images: bool = False
    drafter_sees_images: bool = False
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        here = ("verifier", "drafter", "device", "vocab_map")
        there: tuple[str, ...] = ("api_key", "model", "drafter_model", "drafter_url", "drafter_api_key")
        there += ("verifier_params", "drafter_params", "tokenizer")
        for name in here if self.url is not None else there:
            if getattr(self, name) is not None:
                needs = "local models, without url" if self.url is not None else "a server; give url"
                raise ConfigurationError(f"{name}: only for {needs}")
        for reader in sorted(self.seeing):
            if self.url is None:
                raise ConfigurationError(
                    f"{reader}_sees_images: local models say so themselves; leave it out, or give url"
                )
        if self.drafter_api_key is not None and self.drafter_url is None:
            raise ConfigurationError("drafter_api_key: only for a drafter's own server; give drafter_url")
        for name in ("verifier_params", "drafter_params"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ConfigurationError(f"{name}={value!r} must be a positive number of parameters")
        if not 0 < self.timeout_s <= 86_400:
            raise ConfigurationError(f"timeout_s={self.timeout_s!r} must be in (0, 86,400] seconds")

    @property
    def seeing(self) -> frozenset[Reader]:
        """The models that see images."""
        sees: dict[Reader, bool] = {
            "verifier": self.verifier_sees_images,
            "drafter": self.drafter_sees_images,
        }
        return frozenset(reader for reader, does in sees.items() if does)
