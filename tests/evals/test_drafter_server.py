"""A drafter on a server of its own: it alone is asked for the drafter, by its key, and it is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.errors import BackendError, ConfigurationError, ConnectionFailedError, ServerError
from evals.cells import ArmSpec, Cell
from evals.systems import System, SystemOptions, open_system
from tests.engine.tiny_folder import random_backend
from tests.evals.tiny_system import LONG, asked
from tests.odd_server import ANSWER, Call, OddServer, chunk, free_port, odd_server, sse
from tests.server.serving import serving

ON = "on truncate@0.3"


def plain(*models: str) -> Callable[[Call], None]:
    """A server of these models that knows OpenAI's two paths only; it answers who was asked how much."""

    def handle(call: Call) -> None:
        if call.path.endswith("/v1/models"):
            call.reply({"data": [{"id": name, "object": "model"} for name in models]})
        elif call.path == "/version":
            call.reply({"version": f"v-{models[0]}"})
        elif call.method != "POST":
            call.reply({"error": {"message": "not here"}}, 404)
        else:
            text = f"{call.body['model']}: {len(call.body['messages'][1]['content'])}"
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            answer = {name: value for name, value in ANSWER.items() if name != "asymspec"}
            if call.body.get("stream"):
                call.begin()
                call.send(sse(chunk({"content": text}), chunk({}, "stop", usage=ANSWER["usage"]), "[DONE]"))
            else:
                call.reply({**answer, "choices": [choice]})

    return handle


@contextmanager
def opened(options: SystemOptions) -> Iterator[System]:
    system = open_system(options)
    try:
        yield system
    finally:
        system.close()


@contextmanager
def pair(*drafters: str, **options: Any) -> Iterator[tuple[System, OddServer, OddServer]]:
    """A system over two plain servers, and both of them."""
    with (
        odd_server(plain("big"), handshake=None) as verifier,
        odd_server(plain(*drafters), handshake=None) as drafter,
        opened(SystemOptions(url=verifier.url, drafter_url=drafter.url, **options)) as system,
    ):
        yield system, verifier, drafter


def keys(calls: list[Call]) -> set[str | None]:
    return {call.headers.get("authorization") for call in calls}


def test_the_drafter_arm_goes_to_its_own_server_and_no_other_does() -> None:
    with pair("small", verifier_params=1_000, drafter_params=10) as (system, verifier, drafter):
        assert system.arms == {"floor", "ceiling", "drafter"}
        _, output = asked(system, "drafter")
        assert (verifier.posts, len(drafter.posts)) == ([], 1)
        assert asked(system, "ceiling")[1].answer == f"big: {len(LONG)}"
        assert (len(verifier.posts), len(drafter.posts)) == (1, 1)
        (call,) = output.calls
        identity = system.identity
    assert output.answer == f"small: {len(LONG)}"
    assert (call.mode, call.prompt_tokens.drafter, call.prompt_tokens.verifier) == ("drafter", 3, 0)
    assert "cache_salt" not in drafter.posts[0].body
    assert identity["drafter_url"] == drafter.url != identity["url"]
    assert (identity["drafter"], identity["drafter_alone"]) == ("small", "small")
    assert (identity["server_version"], identity["drafter_server_version"]) == ("v-big", "v-small")
    assert identity["drafter_params"] == 10


def test_summaries_by_the_drafter_are_its_servers() -> None:
    with pair("small") as (system, verifier, drafter):
        system.check(Cell.parse("floor on summary_drafter@0.9"))
        asked(system, "floor on summary_drafter@0.9")
        assert {call.body["model"] for call in drafter.posts} == {"small"}
        (floor,) = verifier.posts
        assert "]\nsmall: " in floor.body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("options", "verifiers", "drafters"),
    [
        ({}, {None}, {None}),
        ({"api_key": "k"}, {"Bearer k"}, {None}),
        ({"api_key": "k", "drafter_api_key": "d"}, {"Bearer k"}, {"Bearer d"}),
        ({"drafter_api_key": "d"}, {None}, {"Bearer d"}),
    ],
)
def test_each_server_gets_its_key(
    options: Mapping[str, str], verifiers: set[str | None], drafters: set[str | None]
) -> None:
    with pair("small", **options) as (system, verifier, drafter):
        asked(system, "drafter")
        asked(system, "ceiling")
    assert (keys(verifier.calls), keys(drafter.calls)) == (verifiers, drafters)
    assert "'d'" not in repr(SystemOptions(url="http://a", drafter_url="http://b", drafter_api_key="d"))


def test_one_of_several_models_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"the drafter with --drafter-model; .* serves small, tiny"):
        pair("small", "tiny").__enter__()
    with pytest.raises(
        ConfigurationError, match=r"drafter_model='huge' is not served at http.*: small, tiny"
    ):
        pair("small", "tiny", drafter_model="huge").__enter__()
    with pair("small", "tiny", drafter_model="tiny") as (system, _, drafter):
        assert asked(system, "drafter")[1].answer == f"tiny: {len(LONG)}"
        assert {call.body["model"] for call in drafter.posts} == {"tiny"}


def test_an_asymspec_server_drafts_with_its_pair_and_the_other_answers_alone() -> None:
    engine = random_backend()
    with serving({"verifier": engine}) as url, odd_server(plain("small"), handshake=None) as drafter:
        with opened(SystemOptions(url=url)) as system:
            assert "--drafter-url" in str(system.refusal(ArmSpec("drafter")))
            with pytest.raises(ConfigurationError, match="--drafter-url"):
                system.plain("drafter")
        with opened(SystemOptions(url=url, drafter_url=drafter.url)) as system:
            assert asked(system, f"asymspec {ON}")[1].calls[0].num_drafted > 0
            assert drafter.posts == []
            assert asked(system, "drafter")[1].answer == f"small: {len(LONG)}"
            assert system.identity["drafter"] == engine.capabilities.drafter
            assert system.identity["drafter_alone"] == "small"


def test_an_asymspec_server_can_be_the_drafters() -> None:
    engine: LocalBackend = random_backend()
    with (
        serving({"small": engine.with_arm("drafter")}) as url,
        odd_server(plain("big"), handshake=None) as verifier,
        opened(SystemOptions(url=verifier.url, drafter_url=url)) as system,
    ):
        (call,) = asked(system, "drafter")[1].calls
        assert call.text == asked(system, "drafter")[1].answer != ""
        assert call.prompt_tokens.drafter > 3
        assert call.time_to_first_token_s is not None  # it streams
        assert system.identity["drafter_server"].startswith("asymspec-agents/")
    assert verifier.posts == []


def refusing(call: Call) -> None:
    call.reply({"error": {"message": "no"}}, 401)


def missing(call: Call) -> None:
    call.reply({"error": {"message": "no"}}, 404)


@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [(missing, BackendError, "neither /v1/asymspec nor /v1/models"), (refusing, ServerError, "status 401")],
)
def test_a_drafters_server_of_no_use_is_told_by_its_address(
    handler: Callable[[Call], None], error: type[Exception], message: str
) -> None:
    with (
        odd_server(plain("big"), handshake=None) as verifier,
        odd_server(handler, handshake=None) as drafter,
        pytest.raises(error, match=message) as caught,
    ):
        open_system(SystemOptions(url=verifier.url, drafter_url=drafter.url))
    assert drafter.url in str(caught.value)


def test_a_drafters_server_that_is_not_there_cannot_be_reached() -> None:
    port = free_port()
    with (
        odd_server(plain("big"), handshake=None) as verifier,
        pytest.raises(ConnectionFailedError, match=f"cannot reach http://127.0.0.1:{port}"),
    ):
        open_system(SystemOptions(url=verifier.url, drafter_url=f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"drafter_url": "http://a"}, "drafter_url: only for a server"),
        ({"drafter_api_key": "k"}, "drafter_api_key: only for a server"),
        ({"url": "http://a", "drafter_api_key": "k"}, "give drafter_url"),
    ],
)
def test_options_of_a_drafters_server_that_do_not_fit_are_refused(
    options: Mapping[str, str], named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        SystemOptions(**options)  # type: ignore[arg-type]


def test_a_malformed_address_is_told_from_that_of_the_verifier() -> None:
    with (
        odd_server(plain("big"), handshake=None) as verifier,
        pytest.raises(ConfigurationError, match="drafter_url: base_url='small' must begin with http"),
    ):
        open_system(SystemOptions(url=verifier.url, drafter_url="small"))
