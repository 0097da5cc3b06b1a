"""A causal language model in memory, read one sequence at a time."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import set_tqdm_hook

from ..errors import ConfigurationError, IncompatibleModelsError, WeightsError
from .attention import NAME as ATTENTION
from .attention import read_cache_in_place
from .cache import KVCache
from .files import read_config, reading
from .packed import PackedCache, positions

if TYPE_CHECKING:
    from .vision.sight import Sight

__all__ = ["CausalModel", "load_model", "load_module", "max_positions"]

logger = logging.getLogger(__name__)

# Layer kinds whose cache is one key and one value per position, so that forgetting positions is exact.
REWINDABLE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
# RoPE kinds whose angles change with the length: cached keys are right only up to the original length.
LENGTH_DEPENDENT_ROPE = {"dynamic", "longrope"}
# Largest gap of packed logits to those of single forwards, as a share of the logits' spread: bfloat16 rounds
# by a few hundredths, a model that mixes the sequences is off by a whole spread.
MAX_PACKED_GAP = 0.2


class CausalModel:
    """One decoder-only model with what the engine needs to know about it.

    Raises IncompatibleModelsError for models whose state cannot be rolled back exactly (recurrent or hybrid
    layers) and for encoder-decoders.
    """

    sees: ClassVar[bool] = False  # whether it reads images

    def __init__(self, module: PreTrainedModel, name: str) -> None:
        self.name = name
        self.module = module
        self.decoder = self._decoder(module)
        module.train(False)
        read_cache_in_place(self.decoder)
        config = module.config.get_text_config(decoder=True)
        self.vocab_size = int(config.vocab_size)
        self.max_positions = max_positions(config)
        self.num_parameters = sum(p.numel() for p in module.parameters())
        self.device = next(module.parameters()).device
        with reading(f"{name}: eos_token_id of its configuration"):
            self.eos_token_ids = _eos_token_ids(module)
        parameters = inspect.signature(self.decoder.forward).parameters
        self._takes_logits_to_keep = "logits_to_keep" in parameters
        # transformers 5.24 renamed it; models of others keep the older name.
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        if getattr(module.config, "is_encoder_decoder", False):
            raise IncompatibleModelsError(f"{name} is an encoder-decoder; a decoder-only model is needed")
        others = set(getattr(config, "layer_types", None) or ()) - REWINDABLE_LAYERS
        if others:
            raise IncompatibleModelsError(
                f"{name} has {', '.join(sorted(others))} layers, which cannot be rolled back"
            )
        self._check_cache()

    @staticmethod
    def _decoder(module: PreTrainedModel) -> PreTrainedModel:
        """The part of the model that reads tokens and keeps the cache."""
        return module

    @torch.inference_mode()
    def forward(self, ids: Tensor, cache: KVCache, num_logits: int, sight: Sight | None = None) -> Tensor:
        """Appends `ids` [1, n] to `cache`; logits of the last `num_logits`: [1, num_logits, vocab].

        `sight` has the images of the prompt that the cache begins with, for a model that sees (`sees`).
        Whatever it raises, the cache is then what it was before.
        """
        with _whole_or_not([cache]):
            logits = self._logits(ids, cache, num_logits, sight)
        return logits[:, logits.shape[1] - num_logits :]

    @torch.inference_mode()
    def forward_packed(
        self,
        ids: Sequence[Tensor],
        caches: Sequence[KVCache],
        sights: Sequence[Sight | None] | None = None,
    ) -> list[Tensor]:
        """Appends each of `ids` [1, n_i] to its cache in one forward; logits of each one's last token.

        Returns one [1, 1, vocab] for each sequence. Needs `can_pack`; `sights`: as in `forward`. Whatever it
        raises, the caches are then what they were before.
        """
        ends = torch.tensor([piece.shape[1] for piece in ids], device=self.device).cumsum(0) - 1
        with _whole_or_not(caches):
            logits = self._packed_logits(ids, caches, sights or [None] * len(ids), ends)
        return list(torch.split(logits, 1, dim=1))

    def _logits(self, ids: Tensor, cache: KVCache, num_logits: int, sight: Sight | None) -> Tensor:
        """Logits of the last `num_logits` tokens at least."""
        extra: dict[str, Any] = {self._cache_name: cache}
        if self._takes_logits_to_keep:
            extra["logits_to_keep"] = num_logits
        logits: Tensor = self.module(input_ids=ids, use_cache=True, **extra).logits
        return logits

    def _packed_logits(
        self,
        ids: Sequence[Tensor],
        caches: Sequence[KVCache],
        sights: Sequence[Sight | None],
        ends: Tensor,
    ) -> Tensor:
        """Logits at the places `ends` of the packed row."""
        num_new = [piece.shape[1] for piece in ids]
        logits: Tensor = self.module(
            input_ids=torch.cat(list(ids), dim=1),
            position_ids=torch.tensor([list(positions(caches, num_new))], device=self.device),
            use_cache=True,
            logits_to_keep=ends,
            **{self._cache_name: PackedCache(caches, num_new)},
        ).logits
        return logits

    @cached_property
    def can_pack(self) -> bool:
        """Whether `forward_packed` works for this model: tried once, against forwards one by one."""
        config = self.module.config.get_text_config(decoder=True)
        layers = set(getattr(config, "layer_types", None) or ())
        slides = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        is_known = (
            self.decoder.config._attn_implementation == ATTENTION
            and layers <= {"full_attention"}
            and not (slides and not layers)
            and self._takes_packed_rows
        )
        return is_known and self._packs_like_one_by_one()

    @property
    def _takes_packed_rows(self) -> bool:
        parameters = inspect.signature(self.module.forward).parameters
        return {"position_ids", "logits_to_keep"} <= parameters.keys()

    def _packs_like_one_by_one(self) -> bool:
        generator = torch.Generator().manual_seed(0)
        ids = [
            torch.randint(0, self.vocab_size, (1, length), generator=generator).to(self.device)
            for length in (7, 4, 2, 1)
        ]
        alone, packed = [KVCache(), KVCache()], [KVCache(), KVCache()]
        for cache, prompt in zip((*alone, *packed), (*ids[:2], *ids[:2]), strict=True):
            self.forward(prompt, cache, 1)
        wanted = [self.forward(piece, cache, 1) for piece, cache in zip(ids[2:], alone, strict=True)]
        try:
            got = self.forward_packed(ids[2:], packed)
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
            return False
        spread = max(float(row.float().std()) for row in wanted)
        gap = max(float((a - b).abs().max()) for a, b in zip(wanted, got, strict=True))
        return gap <= MAX_PACKED_GAP * spread

    def _check_cache(self) -> None:
        """Recurrent models ignore the cache or keep a state of their own: find out now."""
        cache = KVCache()
        try:
            self.forward(torch.zeros((1, 2), dtype=torch.long, device=self.device), cache, 1)
        except (AttributeError, TypeError, ValueError) as error:
            raise IncompatibleModelsError(
                f"{self.name} does not work with a rewindable cache: {error}"
            ) from error
        if cache.lengths() != {2}:
            raise IncompatibleModelsError(f"{self.name} does not keep one key and value per position")


def load_model(
    folder: Path | str, *, name: str | None = None, dtype: str = "bfloat16", device: str | None = None
) -> CausalModel:
    """The model of a local transformers folder; `device` None picks CUDA where present.

    Raises WeightsError where the folder holds no complete model, IncompatibleModelsError for a kind of model
    the engine cannot run, ConfigurationError for an unknown dtype or device.
    """
    name = name or Path(folder).name
    return CausalModel(load_module(folder, AutoModelForCausalLM, name=name, dtype=dtype, device=device), name)


def load_module(
    folder: Path | str,
    auto: Any,
    *,
    name: str,
    dtype: str,
    device: str | None,
    kind: str = "a causal language model",
) -> Any:
    """The folder's model by the transformers class `auto`, its weights whole, on the device.

    Errors call it a model of this `kind`.
    """
    target = torch_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    torch_dtype = getattr(torch, dtype, None)
    if not isinstance(torch_dtype, torch.dtype) or not torch_dtype.is_floating_point:
        raise ConfigurationError(f"dtype={dtype!r} is no floating-point type of torch")
    config = read_config(folder, kind)
    if getattr(config, "is_encoder_decoder", False):
        raise IncompatibleModelsError(f"{name} is an encoder-decoder; a decoder-only model is needed")
    with reading(f"cannot load {kind} from {folder}"), no_progress_bar():
        loaded: Any = auto.from_pretrained(
            folder,
            config=config,
            dtype=torch_dtype,
            trust_remote_code=False,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    module, info = loaded
    if info["missing_keys"]:  # transformers would go on with random values there
        missing = sorted(info["missing_keys"])
        raise WeightsError(f"{folder} lacks {len(missing)} of the model's weights, {missing[0]} among them")
    return module.to(target)


@contextlib.contextmanager
def _whole_or_not(caches: Sequence[KVCache]) -> Iterator[None]:
    """Leaves the caches as they were where what is done meanwhile fails."""
    before = [cache.length for cache in caches]
    try:
        yield
    except BaseException:
        for cache, length in zip(caches, before, strict=True):
            cache.rewind(length)
        raise


def torch_device(device: str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise ConfigurationError(f"device={device!r}: {str(error).splitlines()[0]}") from error


@contextlib.contextmanager
def no_progress_bar() -> Iterator[None]:
    """Keeps transformers from drawing bars meanwhile; whoever loads shows progress in a way of its own."""
    previous = set_tqdm_hook(lambda factory, args, kwargs: factory(*args, **{**kwargs, "disable": True}))
    try:
        yield
    finally:
        set_tqdm_hook(previous)


def max_positions(config: Any) -> int:
    """The most tokens, prompt and answer together, whose positions a text configuration allows."""
    limit = int(getattr(config, "max_position_embeddings", 0) or 2**31)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) in LENGTH_DEPENDENT_ROPE:
        limit = int(rope.get("original_max_position_embeddings") or limit)
    return limit


def _eos_token_ids(module: PreTrainedModel) -> frozenset[int]:
    ids: set[int] = set()
    for source in (module.generation_config, module.config):
        value = getattr(source, "eos_token_id", None)
        ids.update(value if isinstance(value, list | tuple) else [] if value is None else [value])
    return frozenset(int(i) for i in ids)
