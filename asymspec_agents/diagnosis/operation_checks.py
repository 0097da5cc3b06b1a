"""The checks of a server in operation: what stands behind it, its prefix caches, its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from ..backends.answer import ChatResponse
from ..backends.request import ChatRequest
from ..errors import AsymSpecError, BackendError, ContextOverflowError, ServerError
from ..messages import Message
from ..protocol import AsymSpecRequest, Edit
from .finding import Check, Finding
from .request_checks import failed
from .target import Target

__all__ = ["OPERATION_CHECKS"]

QUESTION = "What is the reading of sensor 7?"
# vLLM keeps prefixes in blocks of up to 128 tokens: both views are longer than two of them.
READINGS = [f"Sensor {number} reads {number * 37 % 101} degrees." for number in range(80)]
VIEWS = {"verifier": "compressed", "drafter": "full"}


def _ready(server: Target) -> Iterator[Finding]:
    """Whether the servers behind a gateway can be used; others have no such page."""
    try:
        num_upstreams = server.get("/ready").get("num_upstreams")
    except ServerError as error:
        if error.status == 503:
            fix = (
                "start what it forwards to, or correct its --upstream; asymspec doctor checks each by its URL"
            )
            yield Finding("ready", "FAIL", str(error), fix)
        return
    except BackendError:
        return
    if isinstance(num_upstreams, int):
        yield Finding("ready", "ok", f"a gateway, and its upstreams answer ({num_upstreams})")


def _prefix_cache(server: Target) -> Iterator[Finding]:
    """Whether a repeated prompt is read again: agents repeat nearly all of theirs in each call."""
    full, compressed = (
        "\n".join([*readings, QUESTION]) for readings in (READINGS, READINGS[: len(READINGS) // 2])
    )
    request = ChatRequest(
        messages=(Message(role="user", content=full),),
        asymspec=AsymSpecRequest.of(edits=(Edit(message=0, text=compressed),)),
        max_tokens=1,
        temperature=0.0,
    )
    try:
        _, again = server.backend.generate(request), server.backend.generate(request)
    except ContextOverflowError:
        yield Finding("prefix cache", "info", "not tried: the server's limits are below its 1,000 tokens")
        return
    except AsymSpecError as error:
        yield failed("prefix cache", server, error)
        return
    yield _reuse(again)


def _reuse(answer: ChatResponse) -> Finding:
    report = answer.report
    if report is None or report.fallback is not None:  # the check of a request says so
        return Finding("prefix cache", "info", "not tried: the answer was made without the method")
    lengths = {"verifier": report.verifier_prompt_tokens, "drafter": report.drafter_prompt_tokens}
    kept = {role: getattr(report.cached_tokens, role) for role in VIEWS}
    shares = [
        f"{kept[role]:,} of {lengths[role]:,} tokens of the {view} view" for role, view in VIEWS.items()
    ]
    text = f"a repeated prompt reuses {' and '.join(shares)}"
    lost = [role for role in VIEWS if not kept[role]]
    if not lost:
        return Finding("prefix cache", "ok", text)
    fix = "asymspec serve: a larger --prefix-cache-mib; vLLM: leave out --no-enable-prefix-caching"
    return Finding("prefix cache", "warn", f"{text}: the {' and the '.join(lost)} reads it anew", fix)


def _metrics(server: Target) -> Iterator[Finding]:
    """Whether Prometheus finds the method's figures there."""
    try:
        text = server.text("/metrics")
    except BackendError as error:
        yield Finding("metrics", "info", f"none to scrape: {error}")
        return
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE asymspec_")}
    if names:
        yield Finding("metrics", "ok", f"{len(names)} of asymspec_… at {server.url}/metrics")
    else:
        yield Finding("metrics", "info", f"{server.url}/metrics has none of asymspec_…")


OPERATION_CHECKS: tuple[Check[Target], ...] = (
    Check("ready", _ready, needs=("health",)),
    Check("prefix cache", _prefix_cache, needs=("request",)),
    Check("metrics", _metrics, needs=("health",)),
)
"""They come last: a check of what answers must have passed."""
