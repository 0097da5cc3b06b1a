"""The checks of a server's answers: AsymSpec and plain, whole and streamed, and how it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ..backends.answer import ChatResponse, collect
from ..backends.request import ChatRequest
from ..errors import AsymSpecError, BackendError, NotAsymSpecError, ResponseTimeoutError, ServerError
from ..messages import Message
from ..protocol import AsymSpecRequest, Edit
from ..wire.failures import NO_REASON
from .finding import Check, Finding, Status
from .target import Target

__all__ = ["REQUEST_CHECKS", "failed"]

MAX_TOKENS = 4
FULL = Message(
    role="user", content="The door code is 4711. The weather is fine today. What is the door code?"
)
COMPRESSED = "What is the door code?"


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer read as a stream, with the seconds to its first piece and to its end."""

    response: ChatResponse
    first_s: float
    total_s: float


def failed(name: str, server: Target, error: AsymSpecError) -> Finding:
    """The finding for a request that failed, with what usually mends it."""
    status: Status = "FAIL"
    fix = "the server's log says more"
    if isinstance(error, ServerError):
        if error.status in (401, 403):
            fix = f"asymspec doctor {server.url} --api-key KEY, or export ASYMSPEC_API_KEY=KEY"
            if server.api_key is not None:
                fix = "give one of the keys that the server was started with (--api-key, ASYMSPEC_API_KEY)"
        elif error.status in (429, 503):
            status = "warn"
            fix = "the server is busy: try again later, or start it with a larger --max-waiting"
        elif 300 <= error.status < 400:
            fix = "asymspec doctor with the address that the server names"
    elif isinstance(error, ResponseTimeoutError):
        command = f"asymspec doctor {server.url} --timeout {2 * server.timeout_s:g}"
        fix = f"if the server is slow or busy: {command}"
    elif isinstance(error, NotAsymSpecError):
        fix = "update the server: pip install --upgrade asymspec-agents"
    return Finding(name, status, str(error), fix)


def _asymspec(server: Target) -> Iterator[Finding]:
    """One small AsymSpec request, whole and as a stream: both must give the same text, and the report."""
    view = AsymSpecRequest.of(edits=(Edit(message=0, text=COMPRESSED),))
    request = ChatRequest(messages=(FULL,), asymspec=view, max_tokens=MAX_TOKENS, temperature=0.0)
    try:
        whole, timed = server.backend.generate(request), _streamed(server, request)
    except AsymSpecError as error:
        yield failed("request", server, error)
        return
    streamed, report = timed.response, whole.report
    if report is None or streamed.report is None:
        text = "the answer to an AsymSpec request has no report, so it was made without the method"
        yield Finding("request", "FAIL", text, "pip install --upgrade asymspec-agents, on the server")
    elif (whole.content, whole.reasoning) != (streamed.content, streamed.reasoning):
        text = f"two answers to one greedy request differ: whole {whole.content!r}, "
        text += f"streamed {streamed.content!r}"
        yield Finding(
            "request", "FAIL", text, "see whether something between client and server rewrites answers"
        )
    elif report.fallback is not None:
        text = f"answered without the method: {report.fallback}"
        yield Finding("request", "warn", text, "choose a verifier and a drafter of one tokenizer family")
    elif 0 < report.drafter_prompt_tokens <= report.verifier_prompt_tokens:
        text = (
            f"the verifier read {report.verifier_prompt_tokens} tokens of the compressed view, the drafter "
            f"{report.drafter_prompt_tokens} of the full one: the edits were not applied"
        )
        yield Finding("request", "FAIL", text, "pip install --upgrade asymspec-agents, on the server")
    else:
        text = f"answered by {report.mode}, the same whole and streamed, with report"
        yield Finding("request", "ok", text)
        num_tokens = streamed.usage.completion_tokens
        speed = f"{timed.first_s:.2f} s to the first text, {timed.total_s:.2f} s for {num_tokens} tokens"
        yield Finding("speed", "info", f"{speed}, the second time with warm caches")


def _plain(server: Target) -> Iterator[Finding]:
    """One small request without AsymSpec, as any OpenAI client sends it."""
    request = ChatRequest(messages=(FULL,), max_tokens=MAX_TOKENS, temperature=0.0)
    try:
        whole, streamed = server.backend.generate(request), _streamed(server, request).response
    except AsymSpecError as error:
        yield failed("plain request", server, error)
        return
    if whole.content != streamed.content:
        text = f"two answers to one greedy request differ: whole {whole.content!r}, "
        text += f"streamed {streamed.content!r}"
        yield Finding("plain request", "warn", text, "see whether the server decodes temperature 0 greedily")
    else:
        yield Finding("plain request", "ok", "answered, the same whole and streamed")


def _refusal(server: Target) -> Iterator[Finding]:
    """A malformed request must be refused in a way that clients can show."""
    model = server.get("/v1/models")["data"][0]["id"]
    body = {"model": model, "messages": [{"role": "nobody", "content": 5}], "max_tokens": 1}
    name, fix = "refusal", "update the server: clients can't tell what is wrong with a request"
    try:
        server.post("/v1/chat/completions", body)
    except ServerError as error:
        if error.status in (429, 503):
            yield failed(name, server, error)
        elif not 400 <= error.status < 500:
            yield Finding(name, "FAIL", f"a malformed request is answered with {error.status}", fix)
        elif str(error).endswith(NO_REASON):
            yield Finding(
                name, "warn", f"a malformed request is refused with {error.status}, but without a reason", fix
            )
        else:
            yield Finding(name, "ok", f"a malformed request is refused with {error.status} and a reason")
    except BackendError as error:
        yield failed(name, server, error)
    except AsymSpecError as error:  # a refusal that came back as the exception it stands for
        yield Finding(name, "ok", f"a malformed request is refused: {error}")
    else:
        yield Finding(name, "warn", "a malformed request is answered as if it were none", fix)


def _streamed(server: Target, request: ChatRequest) -> Timed:
    start = time.monotonic()
    first_s = None
    deltas = []
    for delta in server.backend.stream(request):
        if first_s is None and (delta.content or delta.reasoning):
            first_s = time.monotonic() - start
        deltas.append(delta)
    total_s = time.monotonic() - start
    return Timed(collect(deltas), total_s if first_s is None else first_s, total_s)


REQUEST_CHECKS: tuple[Check[Target], ...] = (
    Check("request", _asymspec, needs=("asymspec",)),
    Check("plain request", _plain, needs=("asymspec",)),
    Check("refusal", _refusal, needs=("models",)),
)
