"""What a route gives and reports: fail-open, caching, tools, events, inputs and outputs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from asymspec_agents.compress.base import Rendition
from asymspec_agents.errors import MessageError
from asymspec_agents.messages import parse_messages, parse_tools
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.router import ContextRouter, ToolDoc
from asymspec_agents.store import MemoryStore, short_reference
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.renditions import Renditions
from tests.routing import Exploding, FirstChars, Hanging, QuarterCounter, agent_run, exact_tokens, text_of

TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "Books a seat. " * 30,
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string", "description": "A time such as 10:15:00"}},
            "required": ["at"],
        },
    },
}


class Events:
    """A recorder that keeps what it is told."""

    captures_content = False

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def record(self, event: str, /, **fields: Any) -> None:
        self.events.append((event, fields))


def make_router(**options: Any) -> ContextRouter:
    options = {"counter": QuarterCounter(), "compressor": FirstChars(), **options}
    return ContextRouter(**options)


def test_a_default_router_routes() -> None:
    routed = ContextRouter().route(agent_run(8), [TOOL])
    assert routed.report.num_turns == 8
    assert routed.report.num_degraded == 0
    assert routed.report.compressed_tokens < routed.report.full_tokens


def test_messages_may_be_dicts_or_objects() -> None:
    messages = agent_run(5)
    assert make_router().route(messages) == make_router().route(parse_messages(messages))
    assert make_router().route(messages, [TOOL]) == make_router().route(messages, parse_tools([TOOL]))


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        (None, "messages"),
        ("hello", "messages"),
        ({"role": "user"}, "messages"),
        ([{"content": "x"}], r"messages\[0\].role"),
        ([{"role": "user", "content": 5}], r"messages\[0\]"),
        ([{"role": "user", "content": "x"}, 7], r"messages\[1\]"),
    ],
)
def test_malformed_messages_are_named(messages: Any, place: str) -> None:
    with pytest.raises(MessageError, match=place):
        make_router().route(messages)


def test_malformed_tools_are_named() -> None:
    with pytest.raises(MessageError, match=r"tools\[0\]"):
        make_router().route([], [{"type": "function", "function": {"description": "no name"}}])


def test_aroute_gives_the_same_without_blocking_the_loop() -> None:
    main = threading.get_ident()

    class Located(FirstChars):
        def compress(self, text: str, **options: Any) -> Rendition:
            threads.add(threading.get_ident())
            return super().compress(text, **options)

    threads: set[int] = set()
    router = make_router(compressor=Located(), policy=ViewPolicy(compress_timeout_s=None))
    routed = asyncio.run(router.aroute(agent_run(5), [TOOL]))
    assert threads
    assert main not in threads
    assert routed == make_router().route(agent_run(5), [TOOL])


def test_a_second_call_compresses_and_counts_nothing_of_old_turns_again() -> None:
    counter, compressor = QuarterCounter(), FirstChars()
    router = make_router(counter=counter, compressor=compressor)
    messages = agent_run(9)
    before = router.route(messages[:-2])
    num_renditions = len(compressor.queries)
    counter.counted.clear()
    after = router.route(messages)
    assert len(compressor.queries) == num_renditions + 1  # the turn that left the window
    old = {text_of(message, None) for message in messages[:-6] if message["content"]}
    assert not old & set(counter.counted)
    assert after.compressed[: len(before.compressed) - 4] == before.compressed[:-4]


def test_a_failing_compressor_leaves_head_and_tail_marked_degraded() -> None:
    events = Events()
    router = make_router(compressor=Exploding(), recorder=events)
    messages = agent_run(4)
    messages[3]["content"] = "HEAD " + messages[3]["content"] + " TAIL"
    routed = router.route(messages)
    assert routed.report.num_degraded == 2
    assert [change.degraded for change in routed.report.changes] == [True, True]
    text = text_of(routed.compressed[3], None)
    assert text.startswith("HEAD")
    assert text.endswith("TAIL")
    failures = [fields for name, fields in events.events if name == "compress"]
    assert [failure["reason"] for failure in failures] == ["RuntimeError"] * 2
    assert router.route(messages) == routed  # cached like any other
    assert len([name for name, _ in events.events if name == "compress"]) == 2


def test_a_degraded_rendition_is_reported_even_where_the_original_stays() -> None:
    policy = ViewPolicy(ratio=0.9)
    routed = make_router(compressor=Exploding(), policy=policy).route(agent_run(4))
    assert routed.edits == ()
    assert routed.report.num_degraded == 2


@pytest.mark.parametrize("made", [None, "text", Rendition(None, "bad", "text")])  # type: ignore[arg-type]
def test_a_malformed_rendition_is_a_failure(made: object) -> None:
    class Malformed(FirstChars):
        def compress(self, text: str, **options: Any) -> Any:
            return made

    assert make_router(compressor=Malformed()).route(agent_run(4)).report.num_degraded == 2


def test_a_hanging_compressor_is_cut_off_and_soon_not_waited_for() -> None:
    compressor = Hanging()
    router = make_router(compressor=compressor, policy=ViewPolicy(compress_timeout_s=0.05))
    try:
        routed = router.route(agent_run(8))
        assert routed.report.num_degraded == 6
        assert compressor.num_calls == 2
    finally:
        compressor.release.set()
    while any(thread.name == "asymspec-compress" for thread in threading.enumerate()):
        threading.Event().wait(0.01)
    later = agent_run(8)
    later[1]["content"] = "Another task"  # so other renditions
    assert router.route(later).report.num_degraded == 0
    assert router.route(agent_run(8)) == routed


def test_without_a_limit_the_compressor_runs_in_the_callers_thread() -> None:
    router = make_router(compressor=Exploding(), policy=ViewPolicy(compress_timeout_s=None))
    assert router.route(agent_run(4)).report.num_degraded == 2


def test_no_thread_to_run_in_is_a_failure_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert make_router().route(agent_run(4)).report.num_degraded == 2


def test_concurrent_calls_agree() -> None:
    router = make_router()
    expected = make_router().route(agent_run(12))
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(router.route(agent_run(12)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_the_cache_of_renditions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asymspec_agents.views.renditions.MAX_CACHED_CHARS", 3_000)
    compressor = FirstChars()
    router = make_router(compressor=compressor)
    first = router.route(agent_run(9))
    num_renditions = len(compressor.queries)
    assert router.route(agent_run(9)) == first
    assert len(compressor.queries) > num_renditions


def test_originals_of_what_was_left_out_are_in_the_store() -> None:
    store = MemoryStore()
    router = make_router(store=store, policy=ViewPolicy(max_verifier_tokens=900))
    messages = agent_run(6)
    routed = router.route(messages)
    for edit in routed.edits:
        original = text_of(messages[edit.message], edit.part)
        assert store.get_text(short_reference(original)) == original
    assert short_reference(text_of(messages[3], None)) in text_of(routed.compressed[3], None)


def test_events_carry_counts_and_no_content() -> None:
    events = Events()
    router = make_router(recorder=events, compressor=Exploding())
    routed = router.route([*agent_run(5), {"role": "user", "content": "SECRET"}], [TOOL])
    names = [name for name, _ in events.events]
    assert names == ["compress"] * 3 + ["view"]
    fields = events.events[-1][1]
    assert fields["num_edits"] == routed.report.num_edits == 3
    assert fields["num_degraded"] == 3
    assert fields["compressed_tokens"] < fields["full_tokens"]
    for written in (str(events.events), repr(routed.report)):
        assert "SECRET" not in written
        assert "train" not in written
        assert "seat" not in written


def test_tools_are_signatures_for_the_verifier_and_whole_for_the_drafter() -> None:
    routed = make_router().route(agent_run(1), [TOOL])
    assert routed.tools == parse_tools([TOOL])
    (short,) = routed.compressed_tools
    assert short.wire() == {
        "type": "function",
        "function": {
            "name": "book",
            "parameters": {
                "type": "object",
                "properties": {"at": {"type": "string"}},
                "required": ["at"],
            },
        },
    }
    assert routed.report.num_shortened_tools == 1
    assert routed.request().tools == routed.compressed_tools
    kept = make_router(policy=ViewPolicy(tool_signatures=False)).route(agent_run(1), [TOOL])
    assert kept.compressed_tools == kept.tools


def test_tools_without_docs_stay_the_same() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    routed = make_router().route(agent_run(1), [tool])
    assert routed.compressed_tools == routed.tools
    assert routed.request().tools is None
    assert routed.report.num_shortened_tools == 0


def test_a_tool_too_odd_for_a_signature_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tool: object) -> None:
        raise RecursionError

    monkeypatch.setattr("asymspec_agents.views.tool_view.signature_schema", refuse)
    routed = make_router().route([], [TOOL])
    assert routed.compressed_tools == routed.tools


def test_arguments_json_cannot_write_do_not_stop_a_route() -> None:
    loop: list[object] = []
    loop.append(loop)
    messages = agent_run(4)
    messages[2]["tool_calls"][0]["function"]["arguments"] = {("a", 1): loop}
    assert make_router().route(messages).report.num_edits == 2


def test_known_docs_in_system_prompts_become_signatures_longest_first() -> None:
    short_doc, long_doc = "book: " + "books. " * 10, "book: " + "books. " * 10 + "Also cancels. " * 10
    docs = [ToolDoc(short_doc, "book()"), ToolDoc(long_doc, "book_or_cancel()"), ToolDoc("", "nothing")]
    prompt = f"Tools:\n{long_doc}\nagain\n{short_doc}\nand\n{long_doc}.\ud800"
    messages = [
        {"role": "system", "content": prompt},
        {"role": "developer", "content": [{"type": "text", "text": short_doc, "x_kept": 1}]},
        {"role": "user", "content": short_doc},
    ]
    routed = make_router().route(messages, tool_docs=docs)
    assert routed.compressed[0].content == (
        "Tools:\nbook_or_cancel()\nagain\nbook()\nand\nbook_or_cancel().\ud800"
    )
    assert routed.compressed[1].wire()["content"] == [{"type": "text", "text": "book()", "x_kept": 1}]
    assert routed.compressed[2:] == routed.full[2:]
    assert routed.full == parse_messages(messages)
    assert routed.report.num_shortened_docs == 4
    assert routed.report.compressed_tokens < routed.report.full_tokens
    # A signature that saves nothing is no reason to make the views differ.
    same = make_router().route(messages, tool_docs=[ToolDoc(short_doc, short_doc + "!")])
    assert same.edits == ()


def test_views_are_equal_when_nothing_is_worth_compressing() -> None:
    routed = make_router(policy=ViewPolicy(max_verifier_tokens=2_000)).route(agent_run(2, 600))
    assert routed.edits == ()
    assert routed.compressed == routed.full
    request = routed.request()
    assert request.edits == ()
    assert request.messages is None
    assert request.tools is None


def test_a_request_carries_the_edits_and_the_given_options() -> None:
    routed = make_router().route(agent_run(5), [TOOL])
    request = routed.request(AsymSpecOptions.of(beta=2.0, mode="scaled"))
    assert (request.beta, request.mode, request.edits) == (2.0, "scaled", routed.edits)
    assert request.wire()["beta"] == 2.0
    assert "gamma" not in request.wire()
    assert request.compressed_messages(routed.full) == routed.compressed
    assert routed.request(request).edits == routed.edits  # only its options count


def test_edits_of_a_cut_full_view_give_the_compressed_view() -> None:
    policy = ViewPolicy(max_drafter_tokens=1_500)
    messages = agent_run(6, 3_000)
    routed = make_router(policy=policy, prompt_counter=exact_tokens).route(messages)
    assert exact_tokens(routed.full, ()) <= 1_500
    assert text_of(routed.compressed[-1], None) == text_of(messages[-1], None)  # verbatim for the verifier
    assert text_of(routed.full[-1], None) != text_of(messages[-1], None)


def test_a_part_of_an_unknown_kind_counts_by_a_fixed_size_and_is_never_touched() -> None:
    image = {"type": "input_audio", "input_audio": {"data": "A" * 400_000, "format": "wav"}}
    messages = [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}]
    routed = make_router().route(messages)
    assert routed.compressed == routed.full
    assert 1_000 < routed.report.full_tokens < 1_100


def test_reasoning_and_calls_are_counted() -> None:
    bare = make_router().route([{"role": "assistant", "content": "x"}]).report.full_tokens
    message = {"role": "assistant", "content": "x", "name": "y" * 40, "reasoning": "z" * 400}
    assert make_router().route([message]).report.full_tokens == bare + 110


def test_renditions_tell_nothing_in_their_repr() -> None:
    router = make_router()
    router.route(agent_run(5))
    assert "train" not in repr(router) + repr(router.store)
    assert isinstance(router._renditions, Renditions)
