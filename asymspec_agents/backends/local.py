"""The engine in this process as a backend: renders both views with the model's chat template and decodes."""

from __future__ import annotations

import reprlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..decoding.modes import MODES
from ..errors import ContextOverflowError, MissingDependencyError, UnsupportedRequestError
from ..messages import Message, ToolSpec
from ..protocol import AsymSpecOptions
from ..recording import NULL_RECORDER, Recorder
from ..store import content_hash
from ..weights import DEFAULT_PAIR, ProgressCallback, resolve
from .base import Backend, Capabilities, ChatDelta, ChatRequest, Segment, Usage

if TYPE_CHECKING:
    from ..engine.arms import Arm
    from ..engine.chat import ChatTemplate
    from ..engine.engine import DecodeRequest, Engine, EngineOptions, Outcome, Step

__all__ = ["LocalBackend"]


class LocalBackend(Backend):
    """Answers with the reference engine, greedily. `arm` is how AsymSpec requests are decoded.

    A request without an `asymspec` object is plain greedy decoding of the verifier (arm "drafter": of the
    drafter). What the engine cannot do (sampling, grammars, forced tool choice) is refused with an error.
    """

    def __init__(self, engine: Engine, template: ChatTemplate, *, arm: str = "asymspec") -> None:
        from ..engine.arms import arm_named

        self.engine = engine
        self.template = template
        self.arm: Arm = arm_named(arm)

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
    ) -> LocalBackend:
        """A backend over two models named by local folder, preset or hub name; fetches what is missing."""
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
        )
        return cls(pair.engine, pair.template)

    def with_arm(self, arm: str) -> LocalBackend:
        """A backend over the same engine that decodes AsymSpec requests by another arm."""
        return LocalBackend(self.engine, self.template, arm=arm)

    @property
    def capabilities(self) -> Capabilities:
        from ..engine.arms import LARGE_SHORT, SMALL_FULL

        return Capabilities(
            verifier=self.engine.models["verifier"].name,
            drafter=self.engine.models["drafter"].name,
            modes=tuple(MODES),
            max_verifier_tokens=self.engine.limit(LARGE_SHORT),
            max_drafter_tokens=self.engine.limit(SMALL_FULL),
        )

    def count_prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Exact number of tokens of a prompt: chat template, tools and generation prompt included."""
        return len(self.template.ids(messages, tools))

    def stream(self, request: ChatRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        from ..engine.tool_calls import ToolCallStream

        fallback = _check_supported(request)
        decode = self._decode_request(request, fallback)
        is_plain = decode.arm.drafting is None
        visible = ToolCallStream(_tool_names(request), _call_id_prefix(decode))
        steps = self.engine.decode(decode, abort=abort)
        try:
            while True:
                try:
                    step = next(steps)
                except StopIteration as stop:
                    yield self._last_delta(request, decode, visible, stop.value)
                    return
                segments = _segments(step, is_plain)
                content = "".join(visible.push(segment.text) for segment in segments)
                yield ChatDelta(content=content, segments=segments)
        finally:
            steps.close()

    def _decode_request(self, request: ChatRequest, fallback: str | None) -> DecodeRequest:
        from ..engine.arms import ARMS
        from ..engine.engine import DecodeRequest

        asymspec = request.asymspec
        tools = () if request.tool_choice == "none" else request.tools
        full = self.template.ids(request.messages, tools, request.chat_template_kwargs)
        if asymspec is None:
            arm = self.arm if self.arm.name == "drafter" else ARMS["ceiling"]
            compressed, options = full, AsymSpecOptions()
        else:
            arm, options = self.arm, asymspec
            short_tools = tools if asymspec.tools is None or request.tool_choice == "none" else asymspec.tools
            compressed = self.template.ids(
                asymspec.compressed_messages(request.messages), short_tools, request.chat_template_kwargs
            )
        decode = DecodeRequest(
            full=full,
            compressed=compressed,
            arm=arm,
            options=options,
            max_tokens=request.max_tokens,
            stop=request.stop,
            cache_salt=request.cache_salt,
            request_id=request.request_id,
            fallback=fallback,
        )
        if asymspec is not None and asymspec.on_unsupported == "verifier" and arm.name == "asymspec":
            return self._within_limits(decode)
        return decode

    def _within_limits(self, decode: DecodeRequest) -> DecodeRequest:
        """The request, or the verifier alone on the compressed view where the drafter has no room."""
        from ..engine.arms import ARMS

        try:
            self.engine.check_room(decode)
        except ContextOverflowError as error:
            reasons = (decode.fallback, f"{error.view}_view_overflow")
            return replace(decode, arm=ARMS["floor"], fallback=", ".join(filter(None, reasons)))
        return decode

    def _last_delta(
        self,
        request: ChatRequest,
        decode: DecodeRequest,
        visible: Any,
        outcome: Outcome,
    ) -> ChatDelta:
        parsed = visible.finish()
        prompt_tokens = len(decode.prompt(decode.arm.verifying))
        return ChatDelta(
            content=parsed.content,
            tool_calls=parsed.tool_calls,
            finish_reason="tool_calls" if parsed.tool_calls else outcome.finish_reason,
            usage=Usage(prompt_tokens, outcome.num_tokens, outcome.report.cached_tokens.verifier),
            report=None if request.asymspec is None else outcome.report,
        )


def _check_supported(request: ChatRequest) -> str | None:
    """Refuses what the engine cannot do; returns the fallback the request itself asked for, if any."""
    form = request.response_format
    if form is not None and form.get("type") != "text":
        raise UnsupportedRequestError(
            f"response_format of type {form.get('type')!r}: the local engine has no grammars; "
            "leave it out or use a server that enforces it"
        )
    if request.tool_choice not in (None, "auto", "none"):
        raise UnsupportedRequestError(
            f"tool_choice={request.tool_choice!r}: the local engine cannot force a call; use 'auto' or 'none'"
        )
    if request.extra:
        fields = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in request.extra.items())
        raise UnsupportedRequestError(f"the local engine does not know {fields}; leave it out")
    if request.temperature:
        if request.asymspec is not None and request.asymspec.on_sampling == "greedy":
            return "greedy"
        raise UnsupportedRequestError(
            f"temperature={request.temperature}: decoding is greedy; send 0 or leave it out"
            + ("" if request.asymspec is None else ', or ask for on_sampling="greedy"')
        )
    return None


def _tool_names(request: ChatRequest) -> list[str]:
    if request.tool_choice == "none":
        return []
    return [tool.function.name for tool in request.tools if tool.function is not None]


def _call_id_prefix(decode: DecodeRequest) -> str:
    """The same for the same prompt: frameworks write ids into the history, so random ones change the next."""
    return f"call_{content_hash(repr(decode.full))[:16]}_"


def _segments(step: Step, is_plain: bool) -> tuple[Segment, ...]:
    return tuple(Segment(text, "plain" if is_plain else origin) for text, origin in step.pieces)
