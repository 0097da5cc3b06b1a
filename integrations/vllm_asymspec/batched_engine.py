"""vLLM's asynchronous engine behind the reference engine's interface: requests in token ids, steps out.

Callers of any kind and number share it; vLLM batches what they ask.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from asymspec_agents.backends.loop_thread import LoopThread
from asymspec_agents.engine.arms import Reading
from asymspec_agents.engine.grammar import NO_FORCING, Grammar, GrammarCompiler, GrammarSource, Matcher
from asymspec_agents.engine.loop import Block, TokenOrigin
from asymspec_agents.engine.request import DecodeRequest, Outcome
from asymspec_agents.engine.text import TextStream
from asymspec_agents.engine.trim import Step, Trimmer
from asymspec_agents.errors import ConfigurationError, ContextOverflowError, RequestAbortedError
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.recording import NULL_RECORDER

from .admission import check_request
from .budget import Limits
from .heard import Heard
from .offline import report_of_counts
from .reading import reading_of
from .wire_args import EXTRA_ARG, AsymSpecArgs, pack_ids

__all__ = ["BatchedEngine", "NamedModel"]

ABORT_POLL_S = 0.05
UNKNOWN: TokenOrigin = "accepted"  # a block needs some origin; nobody is told this one

_Item = tuple[int, ...] | Future[None]  # tokens as they come, then the stream's own future


@dataclass(frozen=True, slots=True)
class NamedModel:
    """What a backend says of a model, and the tokens that end its answers."""

    name: str
    eos_token_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class _TextGrammar(Grammar):
    """A grammar compiled here, and its text, which vLLM compiles."""

    text: str


class _Grammars(GrammarCompiler):
    """Compiles here too: what can't be enforced is refused at once, and an answer's end is seen."""

    def compile(self, source: GrammarSource) -> _TextGrammar:
        compiled = super().compile(source)
        return _TextGrammar(compiled.origin, compiled.root, compiled.end_token, NO_FORCING + source.lark)


class BatchedEngine:
    """Decodes AsymSpec requests, and plain ones of the verifier on either view.

    `engine` is vLLM's AsyncLLM, used in `loop` only.
    """

    def __init__(
        self,
        engine: Any,
        loop: LoopThread,
        tokenizer: Any,
        limits: Limits,
        verifier: NamedModel,
        drafter: NamedModel,
    ) -> None:
        self.models = {"verifier": verifier, "drafter": drafter}
        self.recorder = NULL_RECORDER  # vLLM's outputs tell too little of a request for a trace
        self.tokenizer = tokenizer
        self.limits = limits
        self.vocab_size = min(max(tokenizer.get_vocab().values()) + 1, limits.drafter.vocab_size)
        self.grammars = _Grammars(tokenizer)
        self._engine: Any = engine
        self._loop = loop

    def longest_prompt(self, reading: Reading) -> int:
        """The longest prompt that leaves room for an answer: one token, as vLLM shortens a block to fit."""
        most = self.limits.max_full_len if reading.view == "full" else self.limits.max_model_len
        return most - 1

    def close(self) -> None:
        """Ends vLLM's processes; what still runs in them ends with an error."""
        self._loop.stop()
        self._engine = None  # vLLM's object ends badly where the interpreter's end is what ends it

    def check_room(self, request: DecodeRequest) -> None:
        """Raises what `decode` would raise for a view, or a view and its answer, without room."""
        self._max_tokens(request)

    def decode(
        self, request: DecodeRequest, *, abort: threading.Event | None = None
    ) -> Generator[Step, None, Outcome]:
        """Steps as they are decoded; the generator's return value is the outcome.

        Closing the generator ends the request, and so does setting `abort`, which raises RequestAbortedError.
        Steps say nothing of where tokens come from: vLLM's outputs don't tell.
        """
        max_tokens, heard = self._max_tokens(request), Heard()
        eos_token_ids = self.models["verifier"].eos_token_ids
        text = TextStream(self.tokenizer, request.stop, request.visible_tokens)
        trimmer = Trimmer(text, eos_token_ids, max_tokens)
        matcher = self._matcher(request.grammar, eos_token_ids)
        items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        future = self._loop.submit(self._pump(request, max_tokens, heard, items))
        future.add_done_callback(items.put)
        try:
            while trimmer.finish_reason is None:
                item = self._next(items, request, abort)
                if isinstance(item, Future):
                    item.result()
                    break
                complete_at = None if matcher is None else matcher.advance(item)
                origins: tuple[TokenOrigin, ...] = (UNKNOWN,) * len(item)
                yield trimmer.trim(Block(item, origins, 0, (), complete_at))
        finally:
            future.cancel()
        report = self._report(request, heard)
        return Outcome(trimmer.finish_reason or "stop", trimmer.num_tokens, report)

    def _next(
        self, items: queue.SimpleQueue[_Item], request: DecodeRequest, abort: threading.Event | None
    ) -> _Item:
        while True:
            if abort is not None and abort.is_set():
                raise RequestAbortedError(f"request {request.request_id} was aborted")
            try:
                return items.get(timeout=None if abort is None else ABORT_POLL_S)
            except queue.Empty:
                continue

    async def _pump(
        self, request: DecodeRequest, max_tokens: int, heard: Heard, items: queue.SimpleQueue[_Item]
    ) -> None:
        prompt: dict[str, Any] = {"prompt_token_ids": list(_prompt(request))}
        if request.cache_salt:
            prompt["cache_salt"] = request.cache_salt
        params = self._params(request, max_tokens)
        async with aclosing(self._engine.generate(prompt, params, request.request_id)) as outputs:
            async for output in outputs:
                heard.take(output)
                tokens = tuple(output.outputs[0].token_ids)
                if tokens:
                    items.put(tokens)

    def _params(self, request: DecodeRequest, max_tokens: int) -> Any:
        """vLLM's sampling parameters; texts and stop strings are our own business."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        fields: dict[str, Any] = {
            "max_tokens": max_tokens,
            "detokenize": False,
            "output_kind": RequestOutputKind.DELTA,
            "stop_token_ids": sorted(self.models["verifier"].eos_token_ids),
            "temperature": 0.0,
        }
        if isinstance(request.grammar, _TextGrammar):
            fields["structured_outputs"] = StructuredOutputsParams(grammar=request.grammar.text)
        sampling = request.sampling
        if sampling is not None and sampling.top_p > 0:
            seed = None if sampling.seed is None else sampling.seed % 2**63
            fields |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": seed}
        argument = _argument(request)
        if argument is not None:
            fields["extra_args"] = {EXTRA_ARG: argument.pack()}
        return SamplingParams(**fields)

    def _max_tokens(self, request: DecodeRequest) -> int:
        """The longest answer; raises what the reference engine raises."""
        wanted = request.max_tokens
        if wanted is not None and wanted < 1:
            raise ConfigurationError(f"max_tokens={wanted} must be at least 1")
        if request.arm.name not in ("asymspec", "floor", "ceiling"):
            raise ConfigurationError(
                f"arm={request.arm.name!r}: vLLM serves asymspec, floor and ceiling; use a LocalBackend"
            )
        argument = _argument(request)
        if argument is not None:
            packed = pack_ids(request.compressed)
            check_request(self.limits, argument, packed, wanted or 1)
            return wanted or self.limits.max_answer_tokens(
                num_full=len(request.full),
                num_compressed=len(request.compressed),
                has_base=reading_of(argument, packed).has_base,
            )
        view, limit = request.arm.verifying.view, self.limits.max_model_len
        num_tokens = len(_prompt(request))
        if num_tokens == 0:
            raise ConfigurationError(f"the {view} view has no tokens; it needs at least one")
        if num_tokens + (wanted or 1) > limit:
            raise ContextOverflowError(view, num_tokens + (wanted or 1), limit, "read by the verifier")
        return wanted or limit - num_tokens

    def _matcher(self, grammar: Grammar | None, eos_token_ids: frozenset[int]) -> Matcher | None:
        """Follows the grammar here too: it says where the answer is complete, before the model does."""
        return None if grammar is None else grammar.start(eos_token_ids, self.vocab_size)

    def _report(self, request: DecodeRequest, heard: Heard) -> AsymSpecReport:
        if not heard.counts:
            return AsymSpecReport(
                mode=request.arm.name,
                fallback=request.fallback,
                verifier_prompt_tokens=heard.num_prompt_tokens,
                cached_tokens={"verifier": heard.num_cached_tokens},  # type: ignore[arg-type]
            )
        report = report_of_counts(heard.counts)
        fallback = ", ".join(filter(None, (request.fallback, report.fallback))) or None
        return report.model_copy(update={"fallback": fallback})


def _prompt(request: DecodeRequest) -> Sequence[int]:
    return request.prompt(request.arm.verifying)


def _argument(request: DecodeRequest) -> AsymSpecArgs | None:
    """What the engine must know of the full view; None for a plain request."""
    if request.arm.name != "asymspec":
        return None
    return AsymSpecArgs(pack_ids(request.full), request.options, request.cache_salt or None)
