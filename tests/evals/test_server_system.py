"""Servers: an AsymSpec server answers as the local engine does, any other answers Floor and Ceiling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, collect
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.errors import BackendError, ConfigurationError, ConnectionFailedError, ServerError
from asymspec_agents.messages import parse_messages
from evals.cells import ArmSpec, Cell
from evals.systems import System, SystemOptions, open_system
from tests.engine.tiny_folder import random_backend
from tests.evals.tiny_system import LONG, QUERY, asked, made_up_sample
from tests.odd_server import ANSWER, Call, OddServer, chunk, free_port, odd_server, sse
from tests.server.serving import serving

ON = "on truncate@0.3"
VIEW_ARMS = ("floor", "symmetric_compressed", "paper", "cda+none", *MODES)
FULL_ARMS = ("ceiling", "drafter", "symmetric_full", "identical")
CELLS = (*FULL_ARMS, *(f"{arm} {ON}" for arm in VIEW_ARMS))


@pytest.fixture(scope="module")
def engine() -> LocalBackend:
    return random_backend()


@pytest.fixture(scope="module")
def url(engine: LocalBackend) -> Iterator[str]:
    with serving({"verifier": engine, "drafter": engine.with_arm("drafter")}) as address:
        yield address


@pytest.fixture(scope="module")
def served(url: str) -> Iterator[System]:
    opened = open_system(SystemOptions(url=url, verifier_params=1000, drafter_params=100))
    yield opened
    opened.close()


def local_text(engine: LocalBackend, request: ChatRequest, arm: str) -> str:
    return engine.with_arm(arm).generate(request).content


@pytest.mark.parametrize("cell", CELLS)
def test_every_arm_of_an_asymspec_server_answers_and_its_counts_add_up(served: System, cell: str) -> None:
    response, output = asked(served, cell)
    (call,) = output.calls
    assert output.answer == response.content != ""
    assert call.completion_tokens == 24
    assert call.computed_tokens is None  # which a server does not tell
    assert call.time_to_first_token_s is not None
    assert call.time_to_first_token_s <= call.elapsed_s
    assert sum(call.accepted_per_position) == call.num_accepted
    assert sum(call.drafted_per_position) == call.num_drafted
    is_plain = cell.startswith(("floor", "ceiling", "drafter"))
    assert (call.num_drafted == 0) == is_plain
    if is_plain:
        assert call.mode == cell.split()[0]
    else:
        emitted = call.num_accepted + call.num_fused + call.num_bonus
        assert 0 <= emitted - call.completion_tokens <= 2


def test_lossless_arms_agree_over_http(served: System) -> None:
    answers = {cell: asked(served, cell)[1].answer for cell in CELLS}
    assert answers["identical"] == answers["symmetric_full"] == answers["ceiling"]
    assert answers[f"symmetric_compressed {ON}"] == answers[f"floor {ON}"] != answers["ceiling"]
    assert answers[f"asymspec {ON}"] != answers["ceiling"]


def test_the_server_is_asked_what_the_engine_would_be(served: System, engine: LocalBackend) -> None:
    sample = made_up_sample()
    request = ChatRequest(
        messages=parse_messages(sample.messages), asymspec={"edits": []}, max_tokens=sample.max_tokens
    )
    for arm in ("ceiling", "drafter"):
        assert asked(served, arm)[1].answer == local_text(engine, request, arm)


def test_who_read_what_is_told_by_the_report(served: System) -> None:
    _, drafter = asked(served, "drafter")
    _, whole = asked(served, f"asymspec {ON}")
    _, product = asked(served, f"product {ON}")
    (call,) = whole.calls
    full = served.count_tokens(made_up_sample().messages)
    assert (call.full_tokens, call.prompt_tokens.drafter) == (full, full)
    assert call.compressed_tokens == call.prompt_tokens.verifier == call.prompt_tokens.base
    assert product.calls[0].prompt_tokens.base == 0  # which has no base pass
    assert drafter.calls[0].prompt_tokens.verifier == 0
    assert drafter.calls[0].prompt_tokens.drafter == full


def test_a_server_as_a_backend_is_recorded_however_it_is_asked(served: System) -> None:
    asker = served.asker(None, made_up_sample(), Cell.parse(f"strict {ON}"))  # type: ignore[arg-type]
    backend = asker.backend()
    request = ChatRequest(messages=parse_messages(made_up_sample().messages), max_tokens=6)

    async def awaited() -> list[str]:
        return [
            (await backend.agenerate(request)).content,
            collect([delta async for delta in backend.astream(request)]).content,
        ]

    texts = {backend.generate(request).content, collect(backend.stream(request)).content}
    texts |= set(asyncio.run(awaited()))
    assert len(texts) == 1
    assert [call.text for call in asker.output("").calls] == [*texts] * 4


def test_a_fallback_that_was_asked_for_is_named() -> None:
    report = {"version": 1, "mode": "floor", "fallback": "full_view_overflow"}
    with odd_server(lambda call: falls_back(call, report)) as server:
        system = open_system(SystemOptions(url=server.url))
        try:
            _, output = asked(system, f"asymspec:on_unsupported=verifier {ON}")
        finally:
            system.close()
    (call,) = output.calls
    assert (call.mode, call.fallback, call.num_drafted) == ("floor", "full_view_overflow", 0)
    assert (call.prompt_tokens.verifier, call.completion_tokens) == (3, 1)


def falls_back(call: Call, report: Mapping[str, Any]) -> None:
    if call.method != "POST":
        call.reply({"data": [{"id": "big"}]}, 200 if call.path.endswith("/v1/models") else 500)
    elif call.path == "/tokenize":
        call.reply({"error": {"message": "too long"}}, 400)
    else:
        usage = {"prompt_tokens": 3, "completion_tokens": 1}
        call.begin()
        call.send(sse(chunk({"content": "yes"}), chunk({}, "stop", usage=usage, asymspec=report), "[DONE]"))


@pytest.mark.parametrize("arm", ["scd", "rapid"])
def test_arms_that_no_server_decodes_are_refused_with_the_reason(served: System, arm: str) -> None:
    assert not served.supports(ArmSpec(arm))
    with pytest.raises(ConfigurationError, match="run it with local models"):
        served.check(Cell(ArmSpec(arm), None))


def test_a_drafter_that_is_not_served_is_refused(engine: LocalBackend) -> None:
    with serving({"verifier": engine}) as url:
        system = open_system(SystemOptions(url=url))
        try:
            assert system.refusal(ArmSpec("drafter")) is not None
            with pytest.raises(ConfigurationError, match="--drafter-model"):
                system.asker(None, made_up_sample(), Cell.parse("drafter"))  # type: ignore[arg-type]
        finally:
            system.close()


def test_a_summary_by_a_drafter_that_is_not_served_is_refused_before_the_run(engine: LocalBackend) -> None:
    with serving({"verifier": engine}) as url:
        system = open_system(SystemOptions(url=url))
        try:
            with pytest.raises(ConfigurationError, match="--drafter-model"):
                system.check(Cell.parse("floor on summary_drafter@0.3"))
            system.check(Cell.parse("floor on summary@0.3"))
        finally:
            system.close()


def test_the_server_is_named(served: System, url: str) -> None:
    identity = served.identity
    assert (identity["kind"], identity["url"]) == ("asymspec", url)
    assert (identity["verifier"], identity["drafter"]) == ("verifier", "drafter")
    assert (identity["verifier_params"], identity["drafter_params"]) == (1000, 100)
    assert identity["server"].startswith("asymspec-agents/")
    assert identity["counter"] == "estimate/1"


def plain(call: Call, models: tuple[str, ...] = ("big",)) -> None:
    """A server that knows OpenAI's two paths only, and answers which model and how many messages."""
    if call.path.endswith("/v1/models"):
        call.reply({"data": [{"id": name, "object": "model"} for name in models]})
    elif call.method != "POST":
        call.reply({"error": {"message": "not here"}}, 404)
    else:
        text = f"{call.body['model']}: {len(call.body['messages'][1]['content'])}"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        call.reply({**without(ANSWER, "asymspec"), "choices": [choice]})


def without(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != name}


def two_models(call: Call) -> None:
    plain(call, ("big", "small"))


def unknown_fields(server: OddServer) -> set[str]:
    """What was sent beyond OpenAI's own fields."""
    known = {"model", "messages", "temperature", "max_tokens", "tools", "stop", "stream"}
    return {field for call in server.posts for field in call.body} - known


def test_any_other_server_answers_floor_and_ceiling_in_plain_requests() -> None:
    with odd_server(plain, handshake=None) as server:
        system = open_system(SystemOptions(url=server.url))
        try:
            assert system.arms == {"floor", "ceiling"}
            _, ceiling = asked(system, "ceiling")
            _, floor = asked(system, f"floor {ON}")
        finally:
            system.close()
    assert ceiling.answer == f"big: {len(LONG)}"
    assert floor.answer.startswith("big: ")
    assert floor.answer != ceiling.answer
    (call,) = ceiling.calls
    assert (call.prompt_tokens.verifier, call.completion_tokens, call.mode) == (3, 1, "ceiling")
    assert (call.full_tokens, call.computed_tokens, call.time_to_first_token_s) == (None, None, None)
    assert unknown_fields(server) == set()
    assert system.identity["kind"] == "openai"


def test_the_drafter_of_a_plain_server_is_the_one_that_was_named() -> None:
    with odd_server(two_models, handshake=None) as server:
        with pytest.raises(ConfigurationError, match=r"--model; .* serves big, small"):
            open_system(SystemOptions(url=server.url))
        with pytest.raises(ConfigurationError, match=r"drafter_model='tiny' is not served at http"):
            open_system(SystemOptions(url=server.url, model="big", drafter_model="tiny"))
        system = open_system(SystemOptions(url=server.url, model="big", drafter_model="small"))
        try:
            assert system.arms == {"floor", "ceiling", "drafter"}
            _, output = asked(system, "drafter")
        finally:
            system.close()
    assert output.answer == f"small: {len(LONG)}"
    assert (output.calls[0].prompt_tokens.drafter, output.calls[0].prompt_tokens.verifier) == (3, 0)


def test_asymspec_is_refused_by_a_plain_server_before_anything_runs() -> None:
    with odd_server(plain, handshake=None) as server:
        system = open_system(SystemOptions(url=server.url))
        try:
            with pytest.raises(ConfigurationError, match="is an OpenAI-compatible server, which answers"):
                system.check(Cell.parse(f"asymspec {ON}"))
        finally:
            system.close()
        assert server.posts == []


def answered(call: Call, status: int) -> None:
    call.reply({"error": {"message": "no"}}, status)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [(404, BackendError, "neither /v1/asymspec nor /v1/models"), (401, ServerError, "status 401")],
)
def test_a_server_of_no_use_is_told_from_one_that_is(status: int, error: type, message: str) -> None:
    with (
        odd_server(lambda call: answered(call, status), handshake=None) as server,
        pytest.raises(error, match=message),
    ):
        open_system(SystemOptions(url=server.url))


def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    with pytest.raises(ConnectionFailedError, match="cannot reach"):
        open_system(SystemOptions(url=f"http://127.0.0.1:{free_port()}"))


def test_a_stream_that_breaks_off_is_a_failed_call() -> None:
    def breaks(call: Call) -> None:
        if call.path.endswith("/v1/models"):
            call.reply({"data": [{"id": "big"}]})
        elif call.method != "POST":
            call.reply({}, 404)
        else:
            call.begin()
            call.send(sse(chunk({"content": "half"})))

    with odd_server(breaks) as server:
        system = open_system(SystemOptions(url=server.url))
        try:
            asker = system.asker(None, made_up_sample(), Cell.parse("identical"))  # type: ignore[arg-type]
            with pytest.raises(BackendError):
                asker.ask([{"role": "user", "content": QUERY}], max_tokens=4)
        finally:
            system.close()
    (call,) = asker.output("").calls
    assert (call.finish_reason, call.text) == ("error", "half")
