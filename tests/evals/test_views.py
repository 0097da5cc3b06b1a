"""Compressed views by method: sizes are met, what fits stays whole, what is wrong is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from asymspec_agents.backends import AnyRequest, Backend, ChatRequest, ScriptedBackend
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages, parse_tools
from asymspec_agents.tokens import EstimateCounter, TokenizerCounter
from asymspec_agents.views import ViewPolicy
from evals.cells import ViewSpec
from evals.sample import LongPart
from evals.views import (
    MadeView,
    Meter,
    RouterLimits,
    TextTokens,
    ViewMaker,
    ViewMeans,
    check_view,
    list_views,
)
from tests.compress.checkpoints import make_checkpoint
from tests.engine.tiny_folder import WEATHER, byte_tokenizer

TOPICS = ("gulls", "harbours", "lighthouses", "ferries", "tides")
PROSE = "\n".join(
    f"Passage {i}:\n{topic.title()}\nThe {topic} of the bay were counted in {1900 + i}. "
    f"Nobody disputes what was written about {topic} then. Boats came and went."
    for i, topic in enumerate(TOPICS, start=1)
)
QUERY = "When were the lighthouses counted?"
SIZED = ("extract", "auto", "truncate", "head", "headtail", "summary", "summary_drafter")
TOKENIZER = byte_tokenizer()
BYTES = TextTokens(TokenizerCounter(TOKENIZER), TOKENIZER)
ESTIMATE = TextTokens(EstimateCounter())


def summarized(request: AnyRequest) -> str:
    assert isinstance(request, ChatRequest)
    return "The lighthouses were counted in 1903."


def means(tokens: TextTokens = ESTIMATE, **fields: object) -> ViewMeans:
    backends: dict[str, Backend] = {name: ScriptedBackend(summarized) for name in ("verifier", "drafter")}
    params = {"verifier": 1_000, "drafter": 10}
    return ViewMeans(tokens=tokens, plain=backends.__getitem__, params=params.get, **fields)  # type: ignore[arg-type]


def made(
    view: str,
    *texts: str,
    tokens: TextTokens = ESTIMATE,
    tools: tuple[object, ...] = (),
    maker: ViewMaker | None = None,
    **fields: object,
) -> MadeView:
    """The view of a conversation whose user messages are these texts, all of them long parts."""
    maker = ViewMaker(ViewSpec.parse(view), means(tokens, **fields)) if maker is None else maker
    return maker.make(
        parse_messages([{"role": "user", "content": text} for text in texts]),
        parse_tools(tools),  # type: ignore[arg-type]
        query=QUERY,
        long_parts=[LongPart(i) for i in range(len(texts))],
        limits=RouterLimits(),
    )


def shortened(view: MadeView) -> list[str]:
    return [edit.text for edit in view.edits]


@pytest.mark.parametrize("method", SIZED)
@pytest.mark.parametrize("tokens", [BYTES, ESTIMATE], ids=["tokenizer", "estimate"])
def test_a_share_of_the_tokens_is_met(method: str, tokens: TextTokens) -> None:
    total = tokens.counter.count(PROSE)
    (text,) = shortened(made(f"{method}@0.5", PROSE, tokens=tokens))
    assert 0 < tokens.counter.count(text) <= 0.5 * total


@pytest.mark.parametrize("method", SIZED)
def test_a_size_of_one_or_beyond_the_text_leaves_it_whole(method: str) -> None:
    assert made(f"{method}@1", PROSE).edits == ()
    assert made(f"{method}@100000", PROSE, PROSE[:50]).edits == ()


def test_a_budget_is_shared_in_proportion_over_the_parts() -> None:
    view = made("head@200", PROSE, PROSE[: len(PROSE) // 3], "short", tokens=BYTES)
    first, second, third = (len(text) for text in shortened(view))
    assert first + second + third <= 200
    assert first + second + third >= 195
    assert first == pytest.approx(3 * second, abs=3)
    assert third == 1


def test_extraction_keeps_what_bears_on_the_question() -> None:
    (text,) = shortened(made("extract@0.5", PROSE))
    assert "The lighthouses of the bay were counted in 1903." in text
    assert "tides" not in text.lower()


def test_the_middle_is_cut_at_half_the_budget_from_both_ends() -> None:
    text = "abcdefghij" * 10
    assert shortened(made("truncate@11", text, tokens=BYTES)) == ["abcde" + "fghij"]
    assert shortened(made("truncate@12", text, tokens=BYTES)) == ["abcdef" + "efghij"]
    assert shortened(made("head@11", text, tokens=BYTES)) == ["abcdefghija"]


def test_the_middle_is_cut_where_longbench_cuts_it() -> None:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trained.train_from_iterator([PROSE], trainers.BpeTrainer(vocab_size=320, show_progress=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained)
    tokens = TextTokens(TokenizerCounter(tokenizer), tokenizer)
    ids = tokenizer(PROSE)["input_ids"]
    for budget in (2, 20, 51, len(ids) - 1):
        half = budget // 2
        official = tokenizer.decode(ids[:half]) + tokenizer.decode(ids[-half:])
        assert shortened(made(f"truncate@{budget}", PROSE, tokens=tokens)) == [official]


def test_a_character_of_several_tokens_is_not_parted() -> None:
    text = "ä€" * 40  # two and three tokens
    (cut,) = shortened(made("truncate@20", text, tokens=BYTES))
    assert cut == "ä€ä€" + "ä€ä€"
    (beginning,) = shortened(made("head@6", text, tokens=BYTES))
    assert beginning == "ä€"


@given(st.text(max_size=200), st.integers(1, 120), st.booleans())
def test_cuts_keep_ends_and_budget_for_any_text(text: str, budget: int, is_exact: bool) -> None:
    tokens = BYTES if is_exact else ESTIMATE
    for method in ("truncate", "head"):
        (cut,) = shortened(made(f"{method}@{budget + 1}", text, tokens=tokens)) or [text]
        assert cut == text or tokens.counter.count(cut) <= budget + 1
        overlap = next(n for n in range(len(cut), -1, -1) if text.startswith(cut[:n]))
        assert text.endswith(cut[overlap:])


@pytest.mark.parametrize("view", ["signature", "extract@0.3", "truncate@0.3"])
def test_tools_get_their_signatures_in_compressed_views(view: str) -> None:
    seen = made(view, PROSE, tools=(WEATHER,))
    assert seen.full_tools[0].function is not None
    assert seen.full_tools[0].function.description == "Weather of a city."
    assert seen.tools[0].function is not None
    assert seen.tools[0].function.description is None
    assert seen.tools[0].function.parameters == WEATHER["function"]["parameters"]
    assert bool(seen.edits) == (view != "signature")


def test_nothing_is_the_same_view_twice() -> None:
    view = made("none", PROSE, tools=(WEATHER,))
    assert (view.edits, view.tools) == ((), view.full_tools)


def test_an_image_is_shown_as_the_text_that_was_given_for_it() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    messages = parse_messages([{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}])
    for size, length in (("0.5", 4), ("1", 8)):
        view = ViewMaker(ViewSpec.parse(f"head@{size}"), means(BYTES)).make(
            messages, (), query="", long_parts=[LongPart(0, 0, text="A chart.")], limits=RouterLimits()
        )
        assert [(edit.part, edit.text) for edit in view.edits] == [(0, "A chart."[:length])]


def test_the_router_compresses_the_whole_conversation() -> None:
    long = "\n".join(f"{PROSE} {i}" for i in range(12))
    (text,) = shortened(made("router@0.1", long))
    assert EstimateCounter().count(text) < 0.15 * EstimateCounter().count(long)
    assert made("router", PROSE[:80]).edits == ()


def test_a_summary_costs_the_tokens_of_the_model_that_wrote_it() -> None:
    view = made("summary@0.5", PROSE)
    cheap = made("summary_drafter@0.5", PROSE)
    assert "counted in 1903" in shortened(view)[0]
    assert view.effort.flops == 100 * cheap.effort.flops > 0


def test_arms_share_a_rendition_and_each_pays_for_it() -> None:
    backend = ScriptedBackend(summarized)
    shared = ViewMeans(tokens=ESTIMATE, plain=lambda reader: backend, params=lambda reader: 7)
    maker = ViewMaker(ViewSpec("summary", 0.5), shared)
    first, second = made("", PROSE, maker=maker), made("", PROSE, maker=maker)
    assert len(backend.requests) == 1
    assert first.edits == second.edits
    assert first.effort.flops == second.effort.flops > 0


def test_llmlingua_lights_up_with_its_checkpoint(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("bert", tmp_path / "classifier")
    view = made("llmlingua@0.6", PROSE, llmlingua=str(checkpoint))
    (text,) = shortened(view)
    assert EstimateCounter().count(text) <= round(0.6 * EstimateCounter().count(PROSE))
    assert view.effort.flops > 0


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("squeeze@0.3", "unknown; methods: extract, auto, truncate"),
        ("extract", r"needs a size, such as extract@0\.3"),
        ("signature@0.3", "signature has no size"),
        ("none@0.3", "none has no size"),
        ("router@500", "a share below 1"),
        ("router@1", "a share below 1"),
        ("llmlingua@0.3", "--llmlingua"),
    ],
)
def test_a_view_that_cannot_be_made_is_refused(view: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_view(ViewSpec.parse(view), means())


@pytest.mark.parametrize("part", [LongPart(9), LongPart(-1), LongPart(0, 0), LongPart(1), LongPart(1, 1)])
def test_a_long_part_that_is_no_text_is_named(part: LongPart) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = parse_messages([{"role": "user", "content": "x"}, {"role": "user", "content": [image]}])
    with pytest.raises(ConfigurationError, match=rf"long part \(message={part.message}, part={part.part}\)"):
        ViewMaker(ViewSpec("head", 0.5), means()).make(
            messages, (), query="", long_parts=[part], limits=RouterLimits()
        )


def test_every_method_is_listed_in_a_line() -> None:
    listed = list_views()
    assert "extract@SHARE or extract@TOKENS" in listed
    assert {"signature", "none", "router or router@SHARE"} <= set(listed)
    assert all(line and "\n" not in line for line in listed.values())


RESULT = "\n".join(f"{PROSE} {i}" for i in range(12))
DOCUMENTED = {
    "type": "function",
    "function": {**WEATHER["function"], "description": "Says what the weather is in a city. " * 20},
}
HISTORY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": QUERY},
    {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": RESULT},
]


@pytest.mark.parametrize(
    ("view", "least", "most"),
    [("extract@0.2", 0.02, 0.21), ("truncate@100", 0.02, 0.2), ("signature", 1, 1), ("none", 1, 1)],
)
def test_an_agents_router_shortens_by_the_views_method(view: str, least: float, most: float) -> None:
    meter = Meter()
    maker = ViewMaker(ViewSpec.parse(view), means())
    routed = maker.router(RouterLimits(), meter).route(HISTORY, [DOCUMENTED])
    shown = routed.compressed[3].texts()[0]
    assert least <= EstimateCounter().count(shown) / EstimateCounter().count(RESULT) <= most
    assert (routed.compressed_tools != routed.tools) == (view != "none")
    assert meter.take().elapsed_s > 0
    assert meter.take().elapsed_s == 0


def test_an_agents_router_keeps_to_the_models_limits() -> None:
    limits = RouterLimits(max_verifier_tokens=300, max_drafter_tokens=2_000, max_answer_tokens=20)
    routed = ViewMaker(ViewSpec("none"), means()).router(limits, Meter()).route(HISTORY)
    assert routed.report.compressed_tokens <= 300 - 20


def test_a_suites_own_policy_takes_the_place_of_the_views() -> None:
    policy = ViewPolicy(keep_last=0, first_sight_tokens=50, ratio=0.5, min_part_tokens=10)
    routed = ViewMaker(ViewSpec("head", 0.1), means()).router(RouterLimits(), Meter(), policy).route(HISTORY)
    shown = routed.compressed[3].texts()[0]
    assert RESULT.startswith(shown)
    assert EstimateCounter().count(shown) / EstimateCounter().count(RESULT) == pytest.approx(0.5, abs=0.05)
