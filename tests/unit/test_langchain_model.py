"""ChatAsymSpec's settings: what it refuses, what identifies it, how it is copied, saved and described."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.caches import InMemoryCache
from langchain_core.load import dumps
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from asymspec_agents import AsymSpecOptions, ContextRouter, HTTPBackend, ScriptedBackend, ViewPolicy
from asymspec_agents.backends import Capabilities
from langchain_asymspec import ChatAsymSpec
from tests.contract.langchain_answers import obedient_backend
from tests.server.serving import serving

URL = "http://127.0.0.1:9"


def counting_backend() -> ScriptedBackend:
    """Answers with the number of requests so far."""
    backend: ScriptedBackend
    backend = ScriptedBackend(lambda request: f"answer {len(backend.requests)}")
    return backend


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "neither backend nor base_url"),
        ({"backend": obedient_backend(), "base_url": URL}, "backend and base_url are both given"),
        ({"backend": obedient_backend(), "api_key": "k"}, "api_key belongs"),
        ({"backend": "http://x"}, "Backend"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"base_url": URL, "router": "none"}, "router must be a ContextRouter, not str"),
        ({"base_url": URL, "asymspec": {"beta": 9}}, "beta"),
        ({"base_url": URL, "asymspec": "scaled"}, "asymspec must be AsymSpecOptions"),
        ({"base_url": URL, "extra_body": {"messages": []}}, "messages cannot be passed"),
        ({"base_url": URL, "extra_body": {"asymspec": {}}}, "asymspec cannot be passed"),
        ({"base_url": URL, "max_token": 5}, "max_token"),
    ],
)
def test_bad_settings_are_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises((ValidationError, TypeError), match=said):
        ChatAsymSpec(**fields)


def test_a_model_is_not_moved_to_another_server() -> None:
    model = ChatAsymSpec(base_url=URL)
    for name, value in (
        ("base_url", "http://127.0.0.1:10"),
        ("api_key", "k"),
        ("backend", obedient_backend()),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, name, value)
    model.max_tokens = 5
    assert model._identifying_params["max_tokens"] == 5


def test_nothing_is_asked_of_a_server_before_a_call() -> None:
    model = ChatAsymSpec(base_url=URL, max_retries=0)
    assert model.bind_tools([]).bind(max_tokens=3) is not None
    assert repr(copy.deepcopy(model)) == repr(model) == repr(pickle.loads(pickle.dumps(model)))


def test_a_key_of_the_environment_is_a_servers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYMSPEC_API_KEY", "k-of-env")
    served = ChatAsymSpec(base_url=URL)
    assert served.api_key is not None
    assert served.api_key.get_secret_value() == "k-of-env"
    assert ChatAsymSpec(backend=obedient_backend()).api_key is None


def test_no_form_of_a_model_shows_its_key() -> None:
    model = ChatAsymSpec(base_url=URL, api_key="sk-secret", cache_salt="salt-secret")
    shown = [repr(model), str(model), dumps(model), repr(model._identifying_params), str(model.model_dump())]
    assert not [text for text in shown if "sk-secret" in text]
    assert "salt-secret" not in repr(model)
    assert "salt-secret" not in str(model._identifying_params)


@pytest.mark.parametrize(
    "fields", [{"base_url": "http://me:sk-secret@a"}, {"base_url": URL, "top_q": 1}, {"base_url": 5}]
)
def test_no_error_shows_a_key(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatAsymSpec(api_key="sk-secret", **fields)
    assert "sk-secret" not in str(caught.value)


def test_a_model_that_names_a_server_can_be_pickled() -> None:
    with serving(obedient_backend()) as url:
        model = ChatAsymSpec(base_url=url, max_tokens=7, asymspec={"mode": "scaled"})
        model.invoke("Hello")
        loaded = pickle.loads(pickle.dumps(model))
        assert loaded.asymspec == AsymSpecOptions.of(mode="scaled")
        assert loaded.invoke("Hello").content == model.invoke("Hello").content


def test_copies_share_backend_and_connections() -> None:
    model = ChatAsymSpec(backend=obedient_backend(), router=ContextRouter())
    other = model.with_router(ContextRouter(ViewPolicy(keep_last=1)))
    assert other.backend is model.backend is copy.deepcopy(model).backend
    assert other.router is not model.router
    assert ChatAsymSpec(base_url=URL)._backend is not ChatAsymSpec(base_url=URL, api_key="k")._backend
    first = ChatAsymSpec(base_url=URL)
    assert first._backend is ChatAsymSpec(base_url=URL)._backend


def test_equal_questions_are_answered_from_a_cache_and_others_are_not() -> None:
    backend, cache = counting_backend(), InMemoryCache()

    def answer(backend: ScriptedBackend = backend, bound: Any = None, **fields: Any) -> str:
        model = ChatAsymSpec(backend=backend, cache=cache, **fields)
        return str(model.bind(**(bound or {})).invoke("Hello").content)

    assert answer() == answer() == "answer 1"
    other = [
        answer(max_tokens=5),
        answer(asymspec={"mode": "scaled"}),
        answer(bound={"asymspec": {"mode": "strict"}}),
        answer(bound={"asymspec": AsymSpecOptions.of(mode="strict", num_draft_tokens=3)}),
        answer(router=ContextRouter(ViewPolicy(keep_last=1))),
        answer(router=ContextRouter(ViewPolicy(keep_last=3))),
        answer(cache_salt="of another tenant"),
        answer(stop=["x"]),
        answer(bound={"stop": ["y"]}),
        answer(extra_body={"reasoning_effort": "low"}),
    ]
    assert other == [f"answer {number}" for number in range(2, 12)]
    router = ContextRouter(ViewPolicy(keep_last=1))
    assert answer(router=router) == other[4], "an equal router makes equal views"
    assert answer(session_id="s") == "answer 1", "a session changes no answer"


def test_routers_that_cannot_be_told_apart_share_no_answers() -> None:
    class Own:
        def route(self, messages: Any, tools: Any = None) -> Any:
            return ContextRouter().route(messages, tools)

    backend, cache, router = counting_backend(), InMemoryCache(), Own()
    model = ChatAsymSpec(backend=backend, cache=cache, router=router)
    assert model.invoke("Hello").content == model.invoke("Hello").content == "answer 1"
    assert ChatAsymSpec(backend=backend, cache=cache, router=Own()).invoke("Hello").content == "answer 2"
    assert model.with_router(Own()).invoke("Hello").content == "answer 3"


def test_a_field_can_be_configured_call_by_call() -> None:
    backend = obedient_backend()
    with serving(backend) as url:
        model = ChatAsymSpec(base_url=url)
        configurable = model.configurable_fields(
            asymspec=ConfigurableField(id="asymspec"), max_tokens=ConfigurableField(id="max_tokens")
        )
        for mode in ("strict", "scaled"):
            chosen = {"asymspec": AsymSpecOptions.of(mode=mode), "max_tokens": 9}
            answer = configurable.with_config(configurable=chosen)
            assert len(list(answer.stream("Hello"))) > 2, "it still streams"
            assert answer.invoke("Hello").response_metadata["asymspec"]["mode"] == mode
        assert {request.max_tokens for request in backend.requests} == {9}
    assert model._backend is configurable.default._backend  # type: ignore[attr-defined]


class _Limited(ScriptedBackend):
    def __init__(self, drafter: str | None, verifier_tokens: int | None, drafter_tokens: int | None) -> None:
        super().__init__(["Hello"])
        self._capabilities = Capabilities("v", drafter, ("asymspec",), verifier_tokens, drafter_tokens)


@pytest.mark.parametrize(
    ("drafter", "verifier_tokens", "drafter_tokens", "limit"),
    [("d", 1_000, 9_000, 9_000), ("d", 1_000, None, None), (None, 1_000, None, 1_000), ("d", None, 7, 7)],
)
def test_the_profile_tells_the_full_views_limit(
    drafter: str | None, verifier_tokens: int | None, drafter_tokens: int | None, limit: int | None
) -> None:
    backend = _Limited(drafter, verifier_tokens, drafter_tokens)
    profile = ChatAsymSpec(backend=backend, max_tokens=11).profile
    assert profile is not None
    assert profile.get("max_input_tokens") == limit
    assert profile["tool_calling"]
    assert profile["max_output_tokens"] == 11
    assert "structured_output" not in profile


def test_a_given_profile_stands() -> None:
    model = ChatAsymSpec(backend=obedient_backend(), profile={"max_input_tokens": 5})
    assert model.profile == copy.deepcopy(model).profile == {"max_input_tokens": 5}


def test_a_servers_profile_is_asked_for_when_needed_and_never_by_an_event_loop() -> None:
    with serving(_Limited("d", 1_000, 9_000)) as url:
        model = ChatAsymSpec(base_url=url)

        async def told() -> Any:
            return model.profile

        assert "max_input_tokens" not in asyncio.run(told())
        assert model.profile is not None
        assert model.profile["max_input_tokens"] == 9_000
        assert asyncio.run(told()) == model.profile, "what is known is told there too"
    assert ChatAsymSpec(base_url=URL, max_retries=0).profile is not None, "nobody there is no error"


def test_langsmith_hears_what_was_asked() -> None:
    model = ChatAsymSpec(base_url=URL, max_tokens=10, stop="END", temperature=0)
    params = model._get_ls_params(model="other", max_tokens=4)
    assert params == {
        "ls_provider": "asymspec",
        "ls_model_type": "chat",
        "ls_model_name": "other",
        "ls_max_tokens": 4,
        "ls_temperature": 0,
        "ls_stop": ["END"],
    }
    assert ChatAsymSpec(backend=obedient_backend())._get_ls_params()["ls_model_name"] == "org/verifier"


def test_another_backend_than_a_server_knows_its_own_model_only() -> None:
    model = ChatAsymSpec(backend=obedient_backend())
    assert model.invoke("Hello", model="org/verifier").response_metadata["model_name"] == "org/verifier"
    with pytest.raises(ValueError, match="model='gpt'"):
        model.invoke("Hello", model="gpt")


def test_a_backend_may_be_a_server_that_is_set_up_elsewhere() -> None:
    with serving(obedient_backend(), api_keys=("k",)) as url:
        backend = HTTPBackend(url, api_key="k", headers={"x-team": "a"})
        assert ChatAsymSpec(backend=backend).invoke("Hello").content
