"""Who may ask: keys, limits, ids, and what becomes of keys on the way."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import httpx
import pytest

from asymspec_agents.gateway.limits import ClientLimits
from asymspec_agents.server.failing import RefusedError
from tests.gateway.scripted import Script, Upstream, completion
from tests.gateway.serving import CHAT, WAIT_S, apart, ask, eventually, gateway, upstream

Pair = tuple[Upstream, str]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_keys_are_asked_for_and_kept() -> None:
    with apart(api_keys=("one", "two"), upstream_key="gateway-key") as (app, url):
        assert ask(url).status_code == 401
        assert ask(url, headers=bearer("three")).status_code == 401
        assert httpx.get(url + "/v1/models").status_code == 401
        assert httpx.get(url + "/metrics").status_code == 401
        assert httpx.get(url + "/ready").status_code == 200
        assert not app.got
        assert ask(url, headers=bearer("one")).status_code == 200
        assert ask(url, {**CHAT, "cache_salt": "mine"}, headers=bearer("one")).status_code == 200
        assert ask(url, headers=bearer("two")).status_code == 200
    assert {got.header("authorization") for got in app.calls} == {"Bearer gateway-key"}
    first, salted, other = (got.body["cache_salt"] for got in app.calls)
    assert len({first, salted, other}) == 3  # nobody finds another's prompts by their speed
    assert salted == first + "mine"


def test_a_plain_upstream_gets_no_salt() -> None:
    with apart(None, api_keys=("one",), on_plain_upstream="pass") as (app, url):
        ask(url, headers=bearer("one"))
    assert app.calls[0].body == CHAT
    assert app.calls[0].header("authorization") is None


def test_a_clients_key_goes_on_only_if_asked(pair: Pair) -> None:
    with apart(forwards_client_key=True) as (app, url):
        ask(url, headers=bearer("client"))
        httpx.get(url + "/v1/models", headers=bearer("client"))
    assert [got.header("authorization") for got in app.got] == ["Bearer client"] * 2
    app, url = pair
    ask(url, headers=bearer("client"))
    assert app.calls[0].header("authorization") is None


def test_a_forwarded_key_that_is_wrong_is_its_clients_concern() -> None:
    with upstream() as (app, address), gateway(address, forwards_client_key=True) as url:
        app.key = "right"
        assert httpx.get(url + "/ready").status_code == 200
        refused = ask(url, headers=bearer("wrong"))
        assert ask(url, headers=bearer("right")).status_code == 200
        refused_later = ask(url, headers=bearer("wrong"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert (refused_later.status_code, refused_later.content) == (401, b'{"error":"key"}')


def test_a_key_of_a_route_goes_to_that_route_only() -> None:
    from asymspec_agents.gateway.options import UpstreamOptions

    with upstream() as (first, first_url), upstream() as (second, second_url):
        routes = {"other": UpstreamOptions(second_url, "second-key")}
        with gateway(first_url, upstream_key="first-key", routes=routes) as url:
            ask(url)
            ask(url, {**CHAT, "model": "other"})
            models = httpx.get(url + "/v1/models").json()["data"]
            assert [model["id"] for model in models] == ["big", "other"]
            assert httpx.get(url + "/v1/models/other").json()["id"] == "other"
            assert httpx.get(url + "/v1/models/none").status_code == 404
        with gateway(None, routes=routes) as url:
            unknown = ask(url)
    assert [got.header("authorization") for got in first.calls] == ["Bearer first-key"]
    assert [got.header("authorization") for got in second.calls] == ["Bearer second-key"]
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


@contextlib.contextmanager
def held(url: str, app: object, headers: dict[str, str]) -> Iterator[None]:
    """A call that is answered only at the end."""
    thread = threading.Thread(target=lambda: ask(url, headers=headers))
    thread.start()
    yield
    thread.join(WAIT_S)


def test_requests_at_a_time_are_counted_per_key() -> None:
    go = threading.Event()
    with apart(api_keys=("one", "two"), max_in_flight=1) as (app, url):
        app.answer = lambda got: Script([0.05 if go.is_set() else 0.5, completion(asymspec={})])
        with held(url, app, bearer("one")):
            eventually(lambda: len(app.calls) == 1)
            refused = ask(url, headers=bearer("one"))
            go.set()
            assert ask(url, headers=bearer("two")).status_code == 200
        assert ask(url, headers=bearer("one")).status_code == 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["retry-after"] == "1"


def test_requests_in_a_minute() -> None:
    now = [0.0]
    limits = ClientLimits(None, 2, lambda: now[0])
    for second in (0.0, 10.0):
        now[0] = second
        limits.enter("a")
        limits.leave("a")
    now[0] = 20.5
    with pytest.raises(RefusedError) as caught:
        limits.enter("a")
    assert caught.value.failure.headers == {"retry-after": "40"}
    limits.enter("b")
    now[0] = 60.0
    limits.enter("a")
    with pytest.raises(RefusedError):
        limits.enter("a")
    assert limits.num_in_flight == 2


def test_what_is_refused_takes_no_place() -> None:
    with apart(max_in_flight=1) as (_, url):
        for _ in range(3):
            assert ask(url, b"no json").status_code == 400
            assert ask(url, path="/v1/nothing").status_code == 404
        assert ask(url).status_code == 200


@pytest.mark.parametrize("given", ["mine-1", "a b", "", "x" * 300])
def test_every_request_has_an_id(given: str, pair: Pair) -> None:
    app, url = pair
    answer = ask(url, headers={"x-request-id": given})
    refused = ask(url, b"no json", headers={"x-request-id": given})
    identity = answer.headers["x-request-id"]
    assert app.calls[0].header("x-request-id") == identity
    assert (identity == given) is (given == "mine-1")
    assert refused.headers["x-request-id"]


def test_metrics_tell_counts_and_no_content() -> None:
    with apart() as (app, url):
        ask(url, {**CHAT, "messages": [{"role": "user", "content": "secret-word"}], "model": "big"})
        app.answer = lambda got: Script(status=500)
        ask(url)
        text = httpx.get(url + "/metrics").text
    assert 'asymspec_gateway_requests_total{path="/v1/chat/completions",status="200"} 1.0' in text
    assert 'asymspec_gateway_requests_total{path="/v1/chat/completions",status="500"} 1.0' in text
    assert 'asymspec_gateway_views_total{view="both"} 2.0' in text
    assert 'asymspec_gateway_tokens_total{kind="prompt"} 7.0' in text
    assert "asymspec_gateway_open_requests 0.0" in text
    assert "secret-word" not in text
