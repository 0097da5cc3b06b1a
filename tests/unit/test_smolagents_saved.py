"""What a saved model keeps, and what it never holds."""

import json

import pytest

from asymspec_agents import ContextRouter, ScriptedBackend, ViewPolicy
from asymspec_agents.backends import ChatRequest, HTTPBackend
from asymspec_agents.compress import HeadTail
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.summary import SummaryCompressor, SummaryRouter
from smolagents_asymspec.saved import (
    MissingBackend,
    loaded_model,
    loaded_router,
    saved_backend,
    saved_model,
    saved_router,
    without_secrets,
)

SECRETS = {
    "api_key": "x",
    "apiKey": "x",
    "hf_token": "x",
    "extra_headers": {"Authorization": "Bearer x"},
    "password": "x",
    "aws_secret_access_key": "x",
    "cache_salt": "tenant",
    "session_id": "x",
    "custom": "sk-abcdef",
    "url": "https://user:pw@example.org/v1",
    "nested": [{"token": "x"}, "Bearer abc"],
    "extra_body": {"asymspec": {"messages": []}},
    "messages": [{"role": "user", "content": "the prompt"}],
    "client": object(),
    "callback": print,
}


def test_no_secret_no_prompt_and_no_live_object_is_kept():
    assert without_secrets(SECRETS) == {"nested": [{}]}


def test_plain_values_are_kept_at_every_depth():
    plain = {
        "temperature": 0.5,
        "max_tokens": 10,
        "tokens_per_minute": 5,
        "stop": ["a"],
        "chat_template_kwargs": {"enable_thinking": False, "deep": {"x": None}},
        "tool_name_key": "name",
        "keyword": "monkey",
    }
    assert json.loads(json.dumps(without_secrets(plain))) == plain


def test_a_backend_is_saved_by_its_names_and_stands_in_for_itself():
    missing = MissingBackend({"class": "LocalBackend", "verifier": "big", "drafter": "small"})
    assert saved_backend(missing) == {"class": "LocalBackend", "verifier": "big", "drafter": "small"}
    with pytest.raises(ConfigurationError, match=r"LocalBackend .* set model\.backend"):
        missing.generate(ChatRequest(messages=()))


def test_a_server_is_saved_by_its_address_without_asking_it():
    backend = HTTPBackend("http://127.0.0.1:1/v1", api_key="sk-x", max_retries=0)
    saved = saved_backend(backend)
    assert saved == {"class": "HTTPBackend", "base_url": "http://127.0.0.1:1"}
    missing = MissingBackend(saved)
    assert missing.capabilities.verifier == "unknown"
    with pytest.raises(ConfigurationError, match=r"HTTPBackend .*\(at http://127\.0\.0\.1:1 when"):
        missing.generate(ChatRequest(messages=()))


def test_an_inner_model_that_is_not_registered_says_so_when_asked():
    missing = loaded_model({"class": "MyModel", "data": {"model_id": "id"}})
    with pytest.raises(ConfigurationError, match=r"MyModel .* not registered .* set model\.inner"):
        missing.generate([])
    assert saved_model(missing) == {"class": "MyModel", "data": {"model_id": "id"}}


def test_an_inner_model_that_cannot_be_made_says_why_when_asked():
    missing = loaded_model({"class": "OpenAIModel", "data": {}})
    with pytest.raises(ConfigurationError, match=r"OpenAIModel .*TypeError.*model_id"):
        missing.generate([])


def test_a_router_that_cannot_be_brought_back_is_missed_aloud(caplog):
    plain = ContextRouter(ViewPolicy(keep_last=3))
    assert loaded_router(json.loads(json.dumps(saved_router(plain)))).policy == plain.policy
    assert not caplog.messages
    summaries = SummaryRouter(SummaryCompressor(ScriptedBackend(["x"])), policy=plain.policy)
    for router in (summaries, ContextRouter(plain.policy, compressor=HeadTail())):
        caplog.clear()
        assert loaded_router(saved_router(router)).policy == plain.policy
        (message,) = caplog.messages
        assert "saved with another router" in message
    assert loaded_router({"policy": None}) is None
