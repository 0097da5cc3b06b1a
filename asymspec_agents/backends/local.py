"""The engine in this process as a backend: renders both views with the model's chat template and decodes."""

from __future__ import annotations

import reprlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..decoding.modes import MODES
from ..decoding.vocab import MAPPED_DELTAS
from ..errors import (
    AsymSpecError,
    ContextOverflowError,
    MissingDependencyError,
    UnsupportedRequestError,
)
from ..messages import Message, ToolSpec
from ..protocol import AsymSpecOptions
from ..recording import NULL_RECORDER, Recorder
from ..store import content_hash
from ..weights import DEFAULT_PAIR, ProgressCallback, resolve
from ..wire.fields import without_neutral
from .answer import ChatDelta, Segment, Usage
from .base import Backend, Capabilities, PromptCounter
from .prompts import DrafterPrompts, PromptMaker
from .request import AnyRequest, ChatRequest, CompletionRequest

if TYPE_CHECKING:
    from ..engine.answer import AnswerStream
    from ..engine.arms import Arm
    from ..engine.chat import ChatTemplate
    from ..engine.cross_family import MapChoice
    from ..engine.engine import DecodeRequest, Engine, EngineOptions, Outcome, Step
    from ..engine.grammar import Grammar
    from ..engine.sampling import Sampling
    from ..engine.vision.prompt import SeeingPrompts

__all__ = ["LocalBackend"]


class LocalBackend(Backend):
    """Answers with the reference engine. `arm` is how AsymSpec requests are decoded, always greedily.

    A request without an `asymspec` object is plain decoding of the verifier (arm "drafter": of the drafter),
    greedy or sampled. Either kind keeps to the grammar of a response_format or of a forced tool_choice. What
    the engine cannot do is refused with an error.
    """

    def __init__(
        self,
        engine: Engine,
        template: ChatTemplate,
        *,
        arm: str = "asymspec",
        drafter_template: ChatTemplate | None = None,
        seeing: SeeingPrompts | None = None,
    ) -> None:
        """`drafter_template` is how the drafter reads chats where it is of another family, `seeing` where it
        sees images."""
        from ..engine.arms import arm_named

        self.engine = engine
        self.template = template
        self.drafter_template = drafter_template
        self.arm: Arm = arm_named(arm)
        self._seeing = seeing
        self._writer, vocab_size = template, engine.vocab_size
        self._drafter_prompts = None
        if drafter_template is not None and engine.family is not None:
            name = engine.models["drafter"].name
            self._drafter_prompts = DrafterPrompts(drafter_template, engine.family, name, template)
            if self.arm.verifying.model == "drafter":
                self._writer, vocab_size = drafter_template, engine.family.vocab_size
        elif seeing is not None and self.arm.verifying.model == "drafter":
            self._writer = seeing.template
        reader = engine.models[self.arm.verifying.model].name
        self._prompts = PromptMaker(self._writer, vocab_size, reader, seeing)

    @classmethod
    def load(
        cls,
        verifier: str = DEFAULT_PAIR.verifier,
        drafter: str = DEFAULT_PAIR.drafter,
        *,
        dtype: str = "bfloat16",
        device: str | None = None,
        options: EngineOptions | None = None,
        recorder: Recorder = NULL_RECORDER,
        progress: ProgressCallback | None = None,
        vocab_map: MapChoice | None = None,
    ) -> LocalBackend:
        """A backend over two models named by local folder, preset or hub name; fetches what is missing.

        `vocab_map` lets a drafter of another family take part: a map, the file of one, or "auto".
        """
        try:
            from ..engine.load import load_pair
        except ImportError as error:
            raise MissingDependencyError(error.name or "torch", "engine") from error
        folders = [resolve(name, progress=progress) for name in (verifier, drafter)]
        pair = load_pair(
            folders[0].path,
            folders[1].path,
            verifier_name=verifier,
            drafter_name=drafter,
            dtype=dtype,
            device=device,
            options=options,
            recorder=recorder,
            vocab_map=vocab_map,
        )
        return cls(pair.engine, pair.template, drafter_template=pair.drafter_template, seeing=pair.seeing)

    def with_arm(self, arm: str) -> LocalBackend:
        """A backend over the same engine that decodes AsymSpec requests by another arm."""
        return LocalBackend(
            self.engine,
            self.template,
            arm=arm,
            drafter_template=self.drafter_template,
            seeing=self._seeing,
        )

    @property
    def capabilities(self) -> Capabilities:
        from ..engine.arms import LARGE_SHORT, SMALL_FULL

        is_foreign = self.drafter_template is not None
        looks = self._seeing.looker.options if self._seeing is not None and self._shows_images else None
        return Capabilities(
            verifier=self.engine.models["verifier"].name,
            drafter=self.engine.models["drafter"].name,
            modes=tuple(m for m, rule in MODES.items() if not is_foreign or rule.delta in MAPPED_DELTAS),
            max_verifier_tokens=self.engine.longest_prompt(LARGE_SHORT),
            max_drafter_tokens=self.engine.longest_prompt(SMALL_FULL),
            cross_family=is_foreign,
            sees_images=looks is not None,
            max_images=None if looks is None else looks.max_images,
            max_image_pixels=None if looks is None else looks.max_image_pixels,
        )

    @property
    def _shows_images(self) -> bool:
        """Whether the drafter sees, and in this arm reads the full view, which the verifier does not read."""
        from ..engine.arms import LARGE_FULL, SMALL_FULL

        readings = (self.arm.drafting, self.arm.verifying)
        return self._seeing is not None and SMALL_FULL in readings and LARGE_FULL not in readings

    def count_prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Exact number of tokens of a prompt: chat template, tools and generation prompt included.

        Images are counted as the drafter sees them, if it does.
        """
        return len(self._prompts.ids(messages, tools))

    @property
    def prompt_counter(self) -> PromptCounter:
        """Counts as `count_prompt`, for a pair of two families as whichever model needs more tokens."""
        return self.count_prompt if self.drafter_template is None else self._count_longest

    def _count_longest(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        templates = filter(None, (self._writer, self.drafter_template))
        return max(len(template.ids(messages, tools)) for template in templates)

    def prompt_ids(self, request: AnyRequest) -> list[int]:
        """The token ids of a request's full view."""
        return self._prompts.full(request)

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        """The answer step by step; a request that cannot be served is refused here, before a model runs."""
        try:
            decode = self._decode_request(request, _check_supported(request))
            self.engine.check_room(decode)
        except AsymSpecError as error:
            self.engine.recorder.record(
                "error",
                request_id=request.request_id,
                error_type=type(error).__name__,
                message=str(error),
                is_refusal=True,
            )
            raise
        return self._deltas(request, decode, abort)

    def _deltas(
        self, request: AnyRequest, decode: DecodeRequest, abort: threading.Event | None
    ) -> Iterator[ChatDelta]:
        is_plain = decode.arm.drafting is None
        answer = self._answer_stream(request, decode)
        steps = self.engine.decode(replace(decode, visible_tokens=answer.visible_tokens), abort=abort)
        try:
            while True:
                try:
                    step = next(steps)
                except StopIteration as stop:
                    yield self._last_delta(request, decode, answer, stop.value)
                    return
                segments = _segments(step, is_plain)
                piece = answer.push("".join(segment.text for segment in segments))
                yield ChatDelta(content=piece.content, reasoning=piece.reasoning, segments=segments)
        finally:
            steps.close()

    def _answer_stream(self, request: AnyRequest, decode: DecodeRequest) -> AnswerStream:
        """What takes the answer apart; a completion's text, which continues the prompt, stays whole."""
        from ..engine.answer import PLAIN, AnswerStream

        if isinstance(request, CompletionRequest):
            return AnswerStream(PLAIN, (), "", "")
        tools = () if request.tool_choice == "none" else request.tools
        tail = self._writer.tail(decode.prompt(decode.arm.verifying))
        return AnswerStream(self._writer.answer_format, tools, _call_id_prefix(decode), tail)

    def _decode_request(self, request: AnyRequest, fallback: str | None) -> DecodeRequest:
        from ..engine.arms import ARMS
        from ..engine.engine import DecodeRequest

        asymspec = request.asymspec
        is_plain = asymspec is None and self.arm.name != "drafter"
        arm = ARMS["ceiling"] if is_plain else self.arm
        prompts = self._prompts.prompts(request, shows_images=self._shows_images and not is_plain)
        if arm.drafting is not None and self._drafter_prompts is not None:
            prompts = self._drafter_prompts.beside(request, prompts)
        options = asymspec or AsymSpecOptions()
        if prompts.sight is not None:
            options = options.with_images()
        decode = DecodeRequest(
            full=prompts.full,
            compressed=prompts.compressed,
            drafter_full=prompts.drafter_full,
            drafter_compressed=prompts.drafter_compressed,
            sight=prompts.sight,
            arm=arm,
            options=options,
            max_tokens=request.max_tokens,
            stop=request.stop,
            cache_salt=request.cache_salt,
            request_id=request.request_id,
            fallback=", ".join(filter(None, (fallback, *prompts.fallbacks))) or None,
            sampling=_sampling(request),
        )
        if isinstance(request, ChatRequest):
            decode = replace(decode, grammar=self._grammar(request, decode))
        if asymspec is not None and asymspec.on_unsupported == "verifier" and arm.name == "asymspec":
            return self._within_limits(decode)
        return decode

    def _grammar(self, request: ChatRequest, decode: DecodeRequest) -> Grammar | None:
        """What the answer must keep to; tools are enforced by their full schemas, whatever the views show."""
        from ..engine.answer_grammar import AnswerMarks, answer_grammar

        is_own = self.drafter_template is None or self._writer is self.template
        grammars = self.engine.grammars if is_own else self.engine.drafter_grammars
        tail = self._writer.tail(decode.prompt(decode.arm.verifying))
        source = answer_grammar(
            request.tools,
            request.tool_choice,
            request.response_format,
            partial(AnswerMarks.of, self._writer.answer_format, tail, grammars.term),
            max_calls=1 if request.parallel_tool_calls is False else None,
        )
        return None if source is None else grammars.compile(source)

    def _within_limits(self, decode: DecodeRequest) -> DecodeRequest:
        """The request, or the verifier alone on the compressed view where the drafter cannot serve it."""
        from ..engine.arms import ARMS

        try:
            self.engine.check_room(decode)
        except ContextOverflowError as error:
            reason = f"{error.view}_view_overflow"
        except UnsupportedRequestError:
            reason = "cross_family_delta"
        else:
            return decode
        reasons = filter(None, (decode.fallback, reason))
        return replace(decode, arm=ARMS["floor"], fallback=", ".join(reasons))

    def _last_delta(
        self,
        request: AnyRequest,
        decode: DecodeRequest,
        answer: AnswerStream,
        outcome: Outcome,
    ) -> ChatDelta:
        parsed = answer.finish()
        tool_calls = parsed.tool_calls
        if isinstance(request, ChatRequest) and request.parallel_tool_calls is False:
            tool_calls = tool_calls[:1]
        prompt_tokens = len(decode.prompt(decode.arm.verifying))
        return ChatDelta(
            content=parsed.content,
            reasoning=parsed.reasoning,
            tool_calls=tool_calls,
            finish_reason="tool_calls" if tool_calls else outcome.finish_reason,
            usage=Usage(prompt_tokens, outcome.num_tokens, outcome.report.cached_tokens.verifier),
            report=None if request.asymspec is None else outcome.report,
        )


def _check_supported(request: AnyRequest) -> str | None:
    """Refuses what the engine cannot do; returns the fallback the request itself asked for, if any."""
    extra = without_neutral(request.extra)
    if extra:
        fields = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in extra.items())
        raise UnsupportedRequestError(f"{fields}: not supported by the local engine; leave it out")
    if request.asymspec is not None and request.temperature:
        if request.asymspec.on_sampling == "greedy":
            return "greedy"
        raise UnsupportedRequestError(
            f"temperature={request.temperature}: AsymSpec decoding is greedy; send 0 or leave it out, "
            'or ask for on_sampling="greedy"'
        )
    return None


def _sampling(request: AnyRequest) -> Sampling | None:
    """How to draw tokens, None for greedy decoding."""
    from ..engine.sampling import Sampling

    if request.asymspec is not None or not request.temperature:
        return None
    return Sampling(request.temperature, 1.0 if request.top_p is None else request.top_p, request.seed)


def _call_id_prefix(decode: DecodeRequest) -> str:
    """The same for the same prompt: frameworks write ids into the history, so random ones change the next."""
    return f"call_{content_hash(repr(decode.full))[:16]}_"


def _segments(step: Step, is_plain: bool) -> tuple[Segment, ...]:
    return tuple(Segment(text, "plain" if is_plain else origin) for text, origin in step.pieces)
