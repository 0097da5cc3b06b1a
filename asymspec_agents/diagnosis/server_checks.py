"""The checks of what a server says of itself: health, key, models, AsymSpec, limits, token counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._version import __version__
from ..errors import BackendError, ConnectionFailedError, NotAsymSpecError, ServerError
from ..messages import Message
from .finding import Check, Finding
from .network_checks import NETWORK_CHECKS
from .request_checks import REQUEST_CHECKS, failed
from .target import Target

__all__ = ["SERVER_CHECKS"]

LONGEST_LIST = 5


def _health(server: Target) -> Iterator[Finding]:
    """Whether what listens there speaks HTTP and is well."""
    try:
        server.get("/health")
    except BackendError as error:
        yield _unwell(server, error)
    else:
        yield Finding("health", "ok", "the server says it is well")


def _unwell(server: Target, error: BackendError) -> Finding:
    status = error.status if isinstance(error, ServerError) else 0
    if type(error) is BackendError:  # an answer without JSON: vLLM's is empty
        return Finding("health", "ok", "it answers")
    if 400 <= status < 500 and status != 407:  # many servers have no /health
        return Finding("health", "info", f"it answers, but has no /health ({status})")
    if server.proxy is not None and not 300 <= status < 400:
        fix = f"let the proxy through, or go around it: export NO_PROXY={server.address.host}"
        return Finding("health", "FAIL", f"by way of the proxy {server.proxy}: {error}", fix)
    if isinstance(error, ConnectionFailedError):
        other = "http" if server.address.scheme == "https" else "https"
        fix = f"if it speaks {other}: asymspec doctor {other}://{server.address.netloc.decode()}"
        return Finding("health", "FAIL", str(error), fix)
    if status >= 500:
        return Finding("health", "FAIL", str(error), "restart the server; its log says what happened")
    return failed("health", server, error)


def _key(server: Target) -> Iterator[Finding]:
    """Whether the server accepts the key, or asks for none."""
    try:
        server.get("/v1/models")
    except BackendError as error:
        if isinstance(error, ServerError) and error.status in (401, 403):
            yield failed("key", server, error)
        return  # the next check says what else is wrong
    yield Finding("key", "ok", "accepted, or none is needed" if server.api_key else "none is needed")


def _models(server: Target) -> Iterator[Finding]:
    """Whether models are offered in OpenAI's form."""
    try:
        names = [entry["id"] for entry in _entries(server.get("/v1/models"))]
    except BackendError as error:
        is_other = type(error) is BackendError or (isinstance(error, ServerError) and error.status == 404)
        fix = "give the address of an OpenAI-compatible server; asymspec serve prints its own when ready"
        text = f"{server.url}/v1/models has no list of models: {error}"
        yield Finding("models", "FAIL", text, fix) if is_other else failed("models", server, error)
        return
    if not names:
        yield Finding("models", "FAIL", "the server offers no model", "start it with a model")
        return
    more = f" and {len(names) - LONGEST_LIST} more" if len(names) > LONGEST_LIST else ""
    yield Finding("models", "ok", ", ".join(names[:LONGEST_LIST]) + more)


def _entries(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = answer.get("data")
    entries = data if isinstance(data, list) else None
    if entries is None or not all(
        isinstance(entry, Mapping) and isinstance(entry.get("id"), str) for entry in entries
    ):
        raise BackendError("the answer is not in OpenAI's form")
    return entries


def _handshake(server: Target) -> Iterator[Finding]:
    """Whether the server speaks AsymSpec, and this version of it."""
    try:
        info = server.info()
    except NotAsymSpecError as error:
        yield _not_asymspec(server, error)
    except BackendError as error:
        yield failed("asymspec", server, error)
    else:
        text = f"{info.server}, protocol {info.version}, verifier {info.verifier}, drafter {info.drafter}, "
        yield Finding("asymspec", "ok", f"{text}modes: {', '.join(info.modes)}")


def _not_asymspec(server: Target, error: NotAsymSpecError) -> Finding:
    cause = error.__cause__
    if isinstance(cause, NotAsymSpecError):  # another version of it, or an answer that is malformed
        fix = f"on both sides: pip install --upgrade asymspec-agents (here: {__version__})"
        return Finding("asymspec", "FAIL", str(cause), fix)
    if cause is None:
        fix = "start the server with a drafter: asymspec serve --verifier … --drafter …"
        return Finding("asymspec", "FAIL", "the server offers no AsymSpec mode", fix)
    fix = (
        "serve the models with: asymspec serve --verifier … --drafter … (or, for plain answers from the full "
        'context: HTTPBackend(url, on_missing_asymspec="warn"))'
    )
    return Finding("asymspec", "FAIL", f"this is no AsymSpec server, but {_kind(server)}", fix)


def _kind(server: Target) -> str:
    """What a server is, by what it says of itself elsewhere."""
    try:
        version = server.get("/version").get("version")
    except BackendError:
        version = None
    owners = {str(entry.get("owned_by")) for entry in _entries(server.get("/v1/models"))} - {"None"}
    name = f"one of {', '.join(sorted(owners))}" if owners else "an unknown OpenAI-compatible one"
    return f"{name}, version {version}" if isinstance(version, str) else name


def _limits(server: Target) -> Iterator[Finding]:
    """Whether the full view may be the longer one. With equal limits compression saves time, but no room."""
    info = server.info()
    compressed, full = info.max_verifier_tokens, info.max_drafter_tokens
    text = f"compressed view up to {_tokens(compressed)}, full view up to {_tokens(full)}"
    if compressed is None or full is None:
        yield Finding("limits", "info", text)
    elif full < compressed:
        fix = "a drafter that reads more, or asymspec serve --max-verifier-tokens N below the drafter's limit"
        yield Finding("limits", "warn", f"{text}: the drafter reads less than the verifier", fix)
    else:
        note = "; equal, so a context beyond them can't be read by either" if full == compressed else ""
        yield Finding("limits", "info" if note else "ok", text + note)


def _tokens(limit: int | None) -> str:
    return "an unknown number of tokens" if limit is None else f"{limit:,} tokens"


def _tokenize(server: Target) -> Iterator[Finding]:
    """Whether prompts can be counted exactly."""
    if not server.info().tokenize:
        yield Finding("tokenize", "info", "not offered: the router estimates the length of prompts")
        return
    try:
        num_tokens = server.backend.count_prompt([Message(role="user", content="Hello")])
    except BackendError as error:
        yield failed("tokenize", server, error)
        return
    if num_tokens > 0:
        yield Finding("tokenize", "ok", f"prompts are counted exactly ('Hello': {num_tokens} tokens)")
    else:
        text = f"the server counts {num_tokens} tokens in a message"
        yield Finding("tokenize", "FAIL", text, "update the server; its counts can't be used")


SERVER_CHECKS: tuple[Check[Target], ...] = (
    *NETWORK_CHECKS,
    Check("health", _health, needs=("network",)),
    Check("key", _key, needs=("health",)),
    Check("models", _models, needs=("key",)),
    Check("asymspec", _handshake, needs=("models",)),
    Check("limits", _limits, needs=("asymspec",)),
    Check("tokenize", _tokenize, needs=("asymspec",)),
    *REQUEST_CHECKS,
)
"""From the address on; each step that others build on comes before them."""
