"""Starts vLLM's asynchronous engine in this process, in an event loop of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asymspec_agents.backends.loop_thread import LoopThread, at_stop
from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.engine.load import load_tokenizer

from .batched_engine import BatchedEngine, NamedModel
from .compat import end_ids, family_of
from .distribution import make_vllm_known
from .server.start import LIMITS_METHOD, limits_from

__all__ = ["StartedEngine", "start_engine"]

SHUTDOWN_WAIT_S = 60.0  # vLLM's processes take seconds to end, and are not to outlive `close`


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """A running engine, and how it reads chats; the drafter's way where it is of another family."""

    engine: BatchedEngine
    template: ChatTemplate
    drafter_template: ChatTemplate | None = None


def start_engine(folder: Path, arguments: Mapping[str, Any], names: tuple[str, str]) -> StartedEngine:
    """vLLM's engine for the verifier in `folder`, with further engine arguments; `names` of both models."""
    make_vllm_known()
    tokenizer = load_tokenizer(folder)
    loop = LoopThread(SHUTDOWN_WAIT_S)
    try:
        loop.submit(_import_vllm()).result()
        llm, limits = loop.submit(_start(folder, arguments)).result()
    except BaseException:
        loop.stop()
        raise
    eos_token_ids = _eos_token_ids(llm.model_config, tokenizer)
    verifier, drafter = (NamedModel(name, eos_token_ids) for name in names)
    family = family_of(llm.vllm_config)
    engine = BatchedEngine(llm, loop, tokenizer, limits_from(limits), verifier, drafter, family)
    own = None if family is None else ChatTemplate(family.tokenizer)
    return StartedEngine(engine, ChatTemplate(tokenizer), own)


async def _import_vllm() -> None:
    """First, and in no frame that later holds the engine.

    Somebody keeps the error of an optional import, and with it all frames of the stack: an engine in one of
    them would outlive `close`.
    """
    import vllm.v1.engine.async_llm  # noqa: F401


async def _start(folder: Path, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    fields = {"structured_outputs_config": {"backend": "guidance"}, **arguments, "model": str(folder)}
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**fields))

    async def shut_down() -> None:
        llm.shutdown()

    at_stop(shut_down)
    return llm, (await llm.collective_rpc(LIMITS_METHOD))[0]


def _eos_token_ids(model_config: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer for vLLM: the tokenizer's own, and those of the generation config."""
    return end_ids(model_config) | {token for token in (tokenizer.eos_token_id,) if token is not None}
