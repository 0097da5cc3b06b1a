"""What is left of a text that a budget presses on: an extract for the room there is, in both views."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any

import pytest

from asymspec_agents.errors import ContextOverflowError
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.extract_share import largest_share
from asymspec_agents.views.replay import Tier
from tests.routing import FirstChars, QuarterCounter, Wire, agent_run, call

TOWNS = "city,population\n" + "".join(f"Town {n},{n * 7}\n" for n in range(3_000))
LOG = "".join(
    f"2026-03-01 10:{n // 60 % 60:02}:{n % 60:02} INFO request {n * 7} served in {n % 37} ms\n"
    for n in range(3_000)
)


def make_router(compressor: Any = None, **policy: Any) -> ContextRouter:
    return ContextRouter(ViewPolicy(**policy), counter=QuarterCounter(), compressor=compressor)


def asked(question: str, *results: str) -> list[Wire]:
    """A question, one turn with a call for each result, and the results."""
    ids = [f"c{number}" for number in range(len(results))]
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call(id_, "get", "{}") for id_ in ids]},
        *(
            {"role": "tool", "tool_call_id": id_, "content": text}
            for id_, text in zip(ids, results, strict=True)
        ),
    ]


def file(text: str, name: str = "notes.txt") -> Wire:
    url = "data:text/plain;base64," + base64.b64encode(text.encode()).decode()
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def attached(*parts: Wire, words: str = "Summarise the server notes.") -> list[Wire]:
    return [{"role": "user", "content": [*parts, {"type": "text", "text": words}]}]


def notes(length: int, number: int = 0) -> str:
    sentence = f"Sentence about server number {number}. "
    return (sentence * (length // len(sentence) + 1))[:length]


@pytest.mark.parametrize("limit", range(600, 2_600, 200))
@pytest.mark.parametrize(
    ("question", "result", "answer"),
    [
        ("What is the population of Town 1234?", TOWNS, "Town 1234,8638"),
        ("How long did request 8638 take?", LOG, "request 8638 served"),
    ],
)
def test_a_new_result_keeps_what_was_asked_for_and_most_of_the_budget(
    question: str, result: str, answer: str, limit: int
) -> None:
    pytest.importorskip("bm25s")
    routed = make_router(max_verifier_tokens=limit).route(asked(question, result))
    assert 0.7 * min(limit, 2_000) <= routed.report.compressed_tokens <= limit
    assert answer in routed.compressed[-1].texts()[0]
    expected = Tier.EXTRACT if limit < 2_050 else Tier.COMPRESSED
    assert routed.report.turn_tiers == (expected,)


def test_results_of_one_turn_share_the_room() -> None:
    routed = make_router(FirstChars(), max_verifier_tokens=4_000).route(asked("Well?", LOG, LOG, TOWNS))
    tokens = [change.tokens for change in routed.report.changes]
    assert 0.8 * 4_000 <= routed.report.compressed_tokens <= 4_000
    assert max(tokens) - min(tokens) <= 5


def test_results_below_first_sight_shrink_to_the_room_and_no_further() -> None:
    messages = asked("Well?", *["word " * 700] * 5)  # 875 tokens each
    routed = make_router(FirstChars(), max_verifier_tokens=3_500).route(messages)
    assert 0.8 * 3_500 <= routed.report.compressed_tokens <= 3_500


def test_an_extract_gives_way_to_the_compressed_form_when_its_turn_leaves_the_window() -> None:
    router = make_router(FirstChars(), max_verifier_tokens=1_100, high_water=1.0, low_water=1.0)
    messages = [*asked("Well?", "word " * 790, "word " * 790), *agent_run(2, result_chars=40)[2:]]
    tokens = [
        [change.tokens for change in router.route(messages[:end]).report.changes]
        for end in (4, len(messages))
    ]
    assert min(tokens[0]) > 400
    assert tokens[1] == [296, 296]  # the policy's ratio


def test_the_last_old_turn_to_move_keeps_what_fits() -> None:
    messages = agent_run(3, result_chars=400)
    messages[3]["content"] = LOG
    routed = make_router(FirstChars(), max_verifier_tokens=2_000).route(messages)
    assert routed.report.turn_tiers == (Tier.EXTRACT, Tier.VERBATIM, Tier.VERBATIM)
    assert 0.55 * 2_000 <= routed.report.compressed_tokens <= 0.7 * 2_000


def test_a_protected_span_is_not_lost_to_an_extract() -> None:
    result = "KEY-1 " + "word " * 3_000 + "KEY-2"
    router = make_router(FirstChars(), max_verifier_tokens=2_000, protected=(r"KEY-\d",))
    assert router.route(asked("Well?", result)).report.turn_tiers == (Tier.HEAD_AND_TAIL,)


@pytest.mark.parametrize("length", [3_000, 40_000])
@pytest.mark.parametrize("num_files", [1, 3, 5])
@pytest.mark.parametrize("limit", [1_000, 2_000, 4_000])
def test_attachments_of_the_newest_message_shrink_to_both_budgets_their_headers_stay(
    num_files: int, length: int, limit: int
) -> None:
    messages = attached(*[file(notes(length, number), f"n{number}.txt") for number in range(num_files)])
    routed = make_router(max_verifier_tokens=limit, max_drafter_tokens=4 * limit).route(messages)
    for view, tokens, most in (
        (routed.compressed, routed.report.compressed_tokens, limit),
        (routed.full, routed.report.full_tokens, 4 * limit),
    ):
        assert tokens <= most
        *texts, words = view[0].texts()
        assert words == "Summarise the server notes."
        for number, text in enumerate(texts):
            assert text.startswith(f'[file "n{number}.txt"')
            assert text.count("\n") >= 1
    if num_files * length > 16 * limit:
        assert routed.report.full_tokens >= 0.65 * 4 * limit
    if num_files * min(length // 4, 2_000) > 2 * limit:
        assert routed.report.compressed_tokens >= 0.7 * limit


def test_headers_outlive_bodies_and_many_notes_of_pictures_give_way() -> None:
    messages = attached(*[file(notes(2_000, number), f"n{number}.txt") for number in range(12)])
    routed = make_router(max_verifier_tokens=1_500).route(messages)
    assert all(text.startswith('[file "n') for text in routed.compressed[0].texts()[:-1])
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = attached(*[picture] * 60, words="?")
    free = make_router().route(messages).report.compressed_tokens
    for limit in (free - 50, free // 2, 200):
        routed = make_router(max_verifier_tokens=limit, max_drafter_tokens=limit).route(messages)
        assert max(routed.report.compressed_tokens, routed.report.full_tokens) <= limit
        assert routed.compressed[0].texts()[-1] == "?"


def test_a_pasted_message_shrinks_to_the_budget_and_keeps_its_ends() -> None:
    rows = "\n\n".join(f"Paragraph {n} tells of the city of Town{n}." for n in range(3_000))
    messages = [{"role": "user", "content": f"Summarise this.\n\n{rows}\n\nWhat is Town 7?"}]
    for limit in (500, 1_000, 2_000):
        routed = make_router(max_verifier_tokens=limit).route(messages)
        assert 0.6 * limit <= routed.report.compressed_tokens <= limit
        text = routed.compressed[0].texts()[0]
        assert text.startswith("Summarise this.\n\n")
        assert text.endswith("What is Town 7?")
    with pytest.raises(ContextOverflowError) as caught:
        make_router(max_verifier_tokens=60).route(messages)
    assert caught.value.num_tokens < 500  # by how much the shortest form is over


def test_words_that_were_not_compressed_at_first_sight_stay_whatever_the_budget() -> None:
    messages = [*agent_run(2), {"role": "user", "content": "Do it. " * 500}]
    routed = make_router(FirstChars(), max_verifier_tokens=1_000).route(messages)
    assert routed.compressed[-1].texts()[0] == "Do it. " * 500


def test_an_overflow_says_what_is_left_and_what_can_be_done() -> None:
    messages = [{"role": "system", "content": "s" * 400}, {"role": "user", "content": "u" * 3_000}]
    for name in ("max_verifier_tokens", "max_drafter_tokens"):
        with pytest.raises(ContextOverflowError) as caught:
            make_router(**{name: 500}).route([*messages, *agent_run(3)[2:]])
        said = str(caught.value)
        assert said.index("newest user message 750") < said.index("system prompt 100")
        assert name in said
        assert "attachment" in said
    with pytest.raises(ContextOverflowError, match=r"truncate.*attachments"):
        make_router(max_drafter_tokens=500, on_drafter_overflow="raise").route(messages)


def test_the_drafters_cut_keeps_what_was_asked_for_and_most_of_its_budget() -> None:
    pytest.importorskip("bm25s")
    compressor = FirstChars()
    router = make_router(compressor, max_drafter_tokens=9_000)
    for question, result, answer in (
        ("What is the population of Town 1234?", TOWNS, "Town 1234,8638"),
        ("How long did request 8638 take?", LOG, "request 8638 served"),
    ):
        routed = router.route(asked(question, result))
        assert 0.8 * 9_000 <= routed.report.full_tokens <= 9_000
        assert answer in routed.full[-1].texts()[0]
    prose = [f"Section {n} is about {n} other things of the town. " * 3 for n in range(600)]
    prose[300] = "The ferry to Skagen leaves at noon."
    routed = router.route(asked("When does the ferry to Skagen leave?", "\n\n".join(prose)))
    shown = routed.full[-1].texts()[0]
    assert "leaves at noon" in shown
    assert shown.startswith(prose[0][:40])
    assert shown.endswith(prose[-1][-40:])
    assert len(compressor.queries) == 3  # for the compressed view: models have no part in the full one


def test_a_cut_that_was_sent_changes_in_few_calls() -> None:
    router = make_router(max_drafter_tokens=8_000)
    messages = asked("When does the train leave?", LOG)
    messages += agent_run(30, result_chars=400)[2:]
    ends = range(3, len(messages) + 1, 2)
    views = [router.route(messages[:end]).full for end in ends]
    changes = sum(after[: len(before)] != before for before, after in pairwise(views))
    assert 1 <= changes <= 3


def test_a_share_is_the_largest_that_fits() -> None:
    assert largest_share([1_000], [1_000], 850, 100, below=1.0) == pytest.approx(2 ** (-1 / 4))
    assert largest_share([1_000], [1_000], 500, 100, below=1.0) == 0.5
    assert largest_share([1_000], [500], 499, 100, below=0.5) == pytest.approx(2 ** (-5 / 4))
    assert largest_share([1_000, 90], [1_000, 90], 600, 100, below=1.0) == 0.5
    assert largest_share([1_000], [1_000], 99, 100, below=1.0) is None
    assert largest_share([], [], 0, 100, below=1.0) is None


def test_a_huge_result_is_counted_from_samples_and_its_rendition_whole() -> None:
    counter = QuarterCounter()
    router = ContextRouter(ViewPolicy(max_verifier_tokens=3_000, max_drafter_tokens=9_000), counter=counter)
    routed = router.route(asked("How long did request 8638 take?", LOG * 10))
    assert max(map(len, counter.counted)) < 100_000
    assert sum(map(len, counter.counted)) < 2 * len(LOG * 10)
    shown = [routed.compressed[-1].texts()[0], routed.full[-1].texts()[0]]
    assert all(text in counter.counted for text in shown)
    assert routed.report.changes[0].original_tokens == pytest.approx(len(LOG * 10) / 4, rel=0.02)
