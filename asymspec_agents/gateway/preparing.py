"""What goes upstream for a call: the body, which views it holds, and what the answer says of that.

Bytes that need no change are not changed: where both views are sent, the `asymspec` object is added to the
client's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import ConfigurationError, MessageError
from ..messages import Message, parse_messages, parse_tools
from ..protocol import AsymSpecCompletion, AsymSpecOptions, AsymSpecReport, AsymSpecRequest
from ..recording import NULL_RECORDER
from ..router import ContextRouter
from ..views.routed import RoutedContext, RoutingReport
from .answer import Call
from .headers import RawHeaders
from .splicing import encoded, with_fields

__all__ = [
    "CHAT",
    "Prepared",
    "both_views",
    "ceiling_body",
    "compressed_view",
    "own_compressed_view",
    "untouched",
    "with_texts",
    "without_asymspec",
]

CHAT = "/v1/chat/completions"
MAX_SALT_CHARS = 1_024

View = Literal["both", "client", "full", "compressed"]
FindRouter = Callable[[int | None], ContextRouter]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call ready to be sent: `content` is the body, `full` the object that a checker is shown.

    `view` is what the upstream gets: both views, both as the client made them, the full or the compressed
    one. `report` is the router's, None where nothing was routed.
    """

    content: bytes = field(repr=False)
    full: Mapping[str, Any] = field(repr=False)
    view: View
    report: RoutingReport | None = None

    def headers(self) -> RawHeaders:
        """What the answer's headers say: numbers and names, never a content."""
        said: dict[str, object] = {"view": self.view}
        if self.report is not None:
            said["full-tokens"] = self.report.full_tokens
            said["compressed-tokens"] = self.report.compressed_tokens
            said["edits"] = self.report.num_edits
            if self.report.num_degraded or self.report.num_degraded_attachments:
                said["degraded"] = self.report.num_degraded + self.report.num_degraded_attachments
            if self.report.drafter_cuts:
                said["drafter-cuts"] = len(self.report.drafter_cuts)
        return [(f"x-asymspec-{name}".encode(), str(value).encode()) for name, value in said.items()]

    @property
    def answer_report(self) -> dict[str, Any] | None:
        """The `asymspec` object for an answer that has none; None where it is to stay as it is."""
        if self.view != "compressed":
            return None
        report = AsymSpecReport(
            mode="floor",
            fallback="the upstream does not speak AsymSpec; it was sent the compressed view alone",
        )
        sizes: dict[str, Any] = {}
        if self.report is not None:
            sizes["full_tokens"] = self.report.full_tokens
            sizes["compressed_tokens"] = self.report.compressed_tokens
            sizes["edits"] = self.report.num_edits
        return {**report.model_dump(mode="json"), "view": "compressed", **sizes}


def untouched(call: Call, speaks_asymspec: bool) -> Prepared:
    """The call as it came, apart from what keeps the caches of an AsymSpec server's clients apart."""
    has_both = speaks_asymspec and call.fields.get("asymspec") is not None
    extra = _salt(call) if speaks_asymspec else {}
    content = _rewritten(call, extra) if extra else call.raw
    return Prepared(content, call.fields, "client" if has_both else "full")


def without_asymspec(call: Call) -> Prepared:
    """The call for a server that knows no `asymspec` object: without the client's."""
    return Prepared(_rewritten(call, {}, left_out="asymspec"), call.fields, "full")


def own_compressed_view(call: Call) -> Prepared:
    """The same with the compressed view that the client's object makes of the full one in its place.

    Raises ConfigurationError or MessageError for an object that makes none.
    """
    own = call.fields["asymspec"]
    if not isinstance(own, dict):
        raise ConfigurationError("asymspec must be an object, or null for a plain answer")
    changed: dict[str, Any] = {}
    if call.path == CHAT:
        request = AsymSpecRequest.of(**own)
        given = _messages(call)
        compressed = request.compressed_messages(given)
        changed["messages"] = _wire(call.fields["messages"], given, compressed)
        if request.tools is not None:
            changed["tools"] = [tool.wire() for tool in request.tools]
    else:
        changed["prompt"] = AsymSpecCompletion.of(**own).prompt
    return Prepared(_rewritten(call, changed, left_out="asymspec"), call.fields, "compressed")


def with_texts(fields: Mapping[str, Any], find_router: FindRouter) -> Mapping[str, Any]:
    """A body that was not routed as a checker is shown it: with the texts of files in every view it brings.

    Raises MessageError for messages that nobody can read.
    """
    router = find_router(None)

    def read(raw: Any) -> Any:
        if not isinstance(raw, list):
            return raw
        given = parse_messages(raw)
        return _wire(raw, given, router.attachments.read(given, router.store, NULL_RECORDER).full)

    shown = dict(fields)
    if "messages" in shown:
        shown["messages"] = read(shown["messages"])
    own = shown.get("asymspec")
    if isinstance(own, dict) and "messages" in own:
        shown["asymspec"] = {**own, "messages": read(own["messages"])}
    return shown


def both_views(call: Call, find_router: FindRouter, options: AsymSpecOptions) -> Prepared:
    """The call with its compressed view beside the full one. Raises what routing raises."""
    given = _messages(call)
    routed = _routed(call, given, find_router)
    extra = {"asymspec": routed.request(options).wire(), **_salt(call)}
    if call.fields.get("temperature") is None:
        extra["temperature"] = 0  # where it is left out, servers may sample
    changed = _full_messages(call, given, routed)
    content = _rewritten(call, {**changed, **extra})
    return Prepared(content, {**call.fields, **changed}, "both", routed.report)


def compressed_view(call: Call, find_router: FindRouter) -> Prepared:
    """The call with the compressed view in place of the full one. Raises what routing raises."""
    given = _messages(call)
    routed = _routed(call, given, find_router)
    changed: dict[str, Any] = {}
    if routed.compressed != given:
        changed["messages"] = _wire(call.fields["messages"], given, routed.compressed)
    if routed.compressed_tools != routed.tools:
        changed["tools"] = [tool.wire() for tool in routed.compressed_tools]
    full = {**call.fields, **_full_messages(call, given, routed)}
    return Prepared(_rewritten(call, changed), full, "compressed", routed.report)


def ceiling_body(call: Call, prepared: Prepared) -> dict[str, Any]:
    """The same call with the full view alone, answered in one piece; greedy where AsymSpec's decoding was."""
    left_out = ("stream", "stream_options", "asymspec")
    body = {name: value for name, value in prepared.full.items() if name not in left_out}
    return body | {"temperature": 0} | _salt(call) if prepared.view == "both" else body


def _messages(call: Call) -> tuple[Message, ...]:
    if "messages" not in call.fields:
        raise MessageError("messages is missing; a chat completion needs a list of them")
    return parse_messages(call.fields["messages"])


def _routed(call: Call, given: tuple[Message, ...], find_router: FindRouter) -> RoutedContext:
    limits = (call.fields.get("max_tokens"), call.fields.get("max_completion_tokens"))
    counts = [limit for limit in limits if isinstance(limit, int) and not isinstance(limit, bool)]
    router = find_router(max((count for count in counts if count > 0), default=None))
    return router.route(given, parse_tools(call.fields.get("tools")))


def _full_messages(call: Call, given: tuple[Message, ...], routed: RoutedContext) -> dict[str, Any]:
    """The messages where the full view's are others: texts in place of files, or cut to the limit."""
    if routed.full == given:
        return {}
    return {"messages": _wire(call.fields["messages"], given, routed.full)}


def _wire(
    raw: list[dict[str, Any]], given: tuple[Message, ...], shown: tuple[Message, ...]
) -> list[dict[str, Any]]:
    """The messages as sent; one that is shown as it came stays the very object it came as."""
    if len(given) != len(shown):
        return [message.wire() for message in shown]
    return [before if old == new else new.wire() for before, old, new in zip(raw, given, shown, strict=True)]


def _salt(call: Call) -> dict[str, Any]:
    """A cache salt of the client's own, as the upstream knows only the gateway's key, which all share."""
    if call.tenant is None:
        return {}
    given = call.fields.get("cache_salt")
    if given is not None and not isinstance(given, str):
        raise ConfigurationError("cache_salt must be a string")
    salt = f"{call.tenant}:{given or ''}"
    if len(salt) > MAX_SALT_CHARS:
        limit = MAX_SALT_CHARS - len(call.tenant) - 1
        raise ConfigurationError(f"cache_salt has {len(given or ''):,} characters; the limit is {limit:,}")
    return {"cache_salt": salt}


def _rewritten(call: Call, changed: Mapping[str, Any], left_out: str | None = None) -> bytes:
    """The body with these fields: added to its text where they are new, else written anew as a whole."""
    if changed.keys().isdisjoint(call.fields) and left_out not in call.fields:
        return with_fields(call.raw, changed)
    return encoded({n: value for n, value in {**call.fields, **changed}.items() if n != left_out})
