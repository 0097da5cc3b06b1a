"""Every name of vLLM that the scheduler's side uses: the one place to look at when a release moves something.

Written against 0.32; of what is used here 0.33 differs in one thing, `Scheduler.can_skip_drafts`: a step
whose drafts nobody would verify may skip drafting. AsymSpec requests need every round, so it is set to False.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import vllm
from vllm.config.model import _get_and_verify_max_len
from vllm.multimodal.utils import strip_covered_mm_data
from vllm.tokenizers import cached_get_tokenizer
from vllm.v1.core.kv_cache_utils import KVCacheConfig
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.request import Request, RequestStatus

from asymspec_agents.decoding.spelling import Vocabulary
from asymspec_agents.errors import ConfigurationError

from .budget import DrafterShape, Limits, pool_shape
from .config import PluginConfig
from .family import AUTO, Family

__all__ = [
    "AsyncScheduler",
    "EngineCoreOutput",
    "EngineCoreOutputs",
    "PauseState",
    "Request",
    "RequestStatus",
    "Scheduler",
    "SchedulingPolicy",
    "check_version",
    "differing_tokens",
    "drafter_shape",
    "end_at",
    "end_ids",
    "family_of",
    "limits",
    "take_images",
    "unread_images",
    "verifier_kv_bytes",
]

NEEDED = ">=0.32,<0.34"


def check_version(version: str) -> None:
    """Raises ConfigurationError unless this vLLM version is one the plugin was written for."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or not (0, 32) <= (int(match[1]), int(match[2])) < (0, 34):
        raise ConfigurationError(f"vllm={version!r} is not supported; needed: vllm{NEEDED}")


check_version(vllm.__version__)


def drafter_shape(vllm_config: Any) -> DrafterShape:
    """What of the drafter decides the size of its keys and values."""
    speculative = vllm_config.speculative_config
    model = speculative.draft_model_config
    parallel = speculative.draft_parallel_config
    return DrafterShape(
        num_layers=model.get_num_layers(parallel),
        num_kv_heads=model.get_num_kv_heads(parallel),
        head_size=model.get_head_size(),
        bytes_per_value=_bytes_per_value(vllm_config.cache_config.cache_dtype, model.dtype),
        max_positions=_max_positions(model),
        vocab_size=model.get_vocab_size(),
    )


def verifier_kv_bytes(kv_cache_config: KVCacheConfig) -> int:
    """Bytes of the verifier's keys and values on one rank; all its tensors lie in one allocation."""
    return max((int(tensor.size) for tensor in kv_cache_config.kv_cache_tensors), default=0)


def limits(vllm_config: Any, kv_cache_config: KVCacheConfig) -> Limits:
    """The pool and what one request may ask of it. Raises ConfigurationError where nothing would fit."""
    config, drafter = PluginConfig.of(vllm_config.additional_config), drafter_shape(vllm_config)
    family = family_of(vllm_config)
    pool = pool_shape(
        config,
        drafter,
        block_size=vllm_config.cache_config.block_size,
        verifier_kv_bytes=verifier_kv_bytes(kv_cache_config),
    )
    return Limits(
        pool=pool,
        drafter=drafter,
        max_model_len=vllm_config.model_config.max_model_len,
        num_draft_tokens=vllm_config.speculative_config.num_speculative_tokens,
        num_steps_in_flight=vllm_config.max_concurrent_batches,
        configured_full_len=config.max_full_len,
        max_growth=0 if family is None else family.max_growth,
    )


def family_of(vllm_config: Any) -> Family | None:
    """What lets a drafter of another family take part; None where it is of the verifier's own.

    Made once a process. Raises ConfigurationError and IncompatibleModelsError as `Family.of`.
    """
    choice = PluginConfig.of(vllm_config.additional_config).vocab_map
    if choice is None or (choice == AUTO and differing_tokens(vllm_config) == []):
        return None
    return _family(choice, *_pair(vllm_config))


def differing_tokens(vllm_config: Any) -> list[str] | None:
    """Tokens that verifier and drafter don't have under one id, in order; None where one has no tokenizer.

    A drafter that sees may have more than the verifier: those that stand for images.
    """
    try:
        large, small = (tokens.tokenizer() for tokens in _pair(vllm_config))
    except (OSError, ValueError):  # models are served by their ids, too
        return None
    ids, own = large.get_vocab(), small.get_vocab()
    if not (set(ids) - set(large.all_special_tokens) and set(own) - set(small.all_special_tokens)):
        return None  # made up where the files are missing
    sees = vllm_config.speculative_config.draft_model_config.is_multimodal_model
    both = ids if sees else {**own, **ids}
    return [token for token in sorted(both) if ids.get(token) != own.get(token)]


@dataclass(frozen=True, slots=True)
class _Tokens:
    """What tells the tokens of a model from those of another."""

    place: str
    revision: str | None
    mode: str
    trusts_code: bool
    num_logits: int
    end_ids: frozenset[int]

    def tokenizer(self) -> Any:
        return cached_get_tokenizer(
            self.place,
            tokenizer_mode=self.mode,
            revision=self.revision,
            trust_remote_code=self.trusts_code,
        )


def _tokens(model: Any) -> tuple[str, bool, int, frozenset[int]]:
    return model.tokenizer_mode, model.trust_remote_code, model.get_vocab_size(), end_ids(model)


def _pair(vllm_config: Any) -> tuple[_Tokens, _Tokens]:
    verifier = vllm_config.model_config
    drafter = vllm_config.speculative_config.draft_model_config
    return (
        _Tokens(verifier.tokenizer, verifier.tokenizer_revision, *_tokens(verifier)),
        _Tokens(drafter.model, drafter.revision, *_tokens(drafter)),
    )


@functools.lru_cache(maxsize=1)
def _family(choice: str, verifier: _Tokens, drafter: _Tokens) -> Family:
    large, small = verifier.tokenizer(), drafter.tokenizer()
    return Family.of(
        choice,
        Vocabulary.of(large, name=verifier.place, eos_token_ids=verifier.end_ids),
        Vocabulary.of(small, name=drafter.place, eos_token_ids=drafter.end_ids),
        small,
        num_logits=(verifier.num_logits, drafter.num_logits),
        drafter_end_ids=drafter.end_ids | {small.eos_token_id},
    )


def end_at(request: Request, token_ids: Iterable[int]) -> None:
    """Lets these tokens end the request's answer too, unless it is to go on behind any."""
    params = request.sampling_params
    if not params.ignore_eos:
        params.stop_token_ids = sorted({*(params.stop_token_ids or ()), *token_ids})
        params.all_stop_token_ids.update(token_ids)


def end_ids(model: Any) -> frozenset[int]:
    """The tokens that end an answer by a model's generation configuration."""
    given = model.try_get_generation_config().get("eos_token_id", [])
    return frozenset({given} if isinstance(given, int) else given or ())


def take_images(request: Request) -> tuple[Any, ...]:
    """The images that came with a request, which has none afterwards: they are the drafter's to read.

    The verifier's blocks are named anew, as its tokens don't depend on them.
    """
    images, request.mm_features = tuple(request.mm_features), []
    if images:
        request.block_hashes.clear()
        request.update_block_hashes()
    return images


def unread_images(vllm_config: Any) -> Callable[[Sequence[Any], int], Sequence[Any]]:
    """What `Views` calls to leave out the data of images that nobody has to look at again."""
    has_mrope = bool(vllm_config.speculative_config.draft_model_config.uses_mrope)

    def unread(images: Sequence[Any], num_tokens: int) -> Sequence[Any]:
        stripped: Sequence[Any] = strip_covered_mm_data(list(images), num_tokens, has_mrope)
        return stripped

    return unread


def _bytes_per_value(cache_dtype: str, model_dtype: Any) -> int:
    if cache_dtype == "auto":
        return int(model_dtype.itemsize)
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE

    return int(STR_DTYPE_TO_TORCH_DTYPE[cache_dtype].itemsize)


def _max_positions(model: Any) -> int:
    """Positions of the model itself; vLLM lowers a drafter's `max_model_len` to the verifier's."""
    return int(
        _get_and_verify_max_len(
            hf_config=model.hf_text_config,
            model_arch_config=model.model_arch_config,
            tokenizer_config=None,
            max_model_len=None,
            disable_sliding_window=False,
            sliding_window=None,
        )
    )
