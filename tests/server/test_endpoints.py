"""The endpoints beside the completions, request ids, keys, tenants, and bodies too large."""

from __future__ import annotations

import socket
import urllib.parse
from collections.abc import Iterator

import httpx
import pytest

from asymspec_agents import __version__
from asymspec_agents.backends import Backend, Capabilities, ChatDelta, ScriptedBackend
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import BackendError, ConfigurationError
from asymspec_agents.server.app import create_app
from asymspec_agents.server.options import ServerOptions

from .serving import CHAT, WAIT_S, HeldBackend, get, post, serving

PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    backends = {"org/big": HeldBackend(is_held=False), "small": HeldBackend(is_held=False)}
    with serving(backends) as url, httpx.Client(base_url=url, timeout=WAIT_S) as client:
        yield client


def error_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return answer.status_code, error["code"], error["param"]


def test_models_are_listed_and_found_by_names_with_slashes(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["org/big", "small"]
    for model in listed["data"]:
        assert client.get(f"/v1/models/{model['id']}").json() == model
        quoted = urllib.parse.quote(model["id"], safe="")
        assert client.get(f"/v1/models/{quoted}").json() == model
    assert error_of(client.get("/v1/models/other")) == (404, "model_not_found", "model")
    assert error_of(client.get("/v1/models/%ff%00")) == (404, "model_not_found", "model")


def test_the_server_says_what_it_is(client: httpx.Client) -> None:
    assert client.get("/v1/asymspec").json() == {
        "version": 1,
        "verifier": "org/big",
        "drafter": "small",
        "modes": ["asymspec"],
        "max_verifier_tokens": None,
        "max_drafter_tokens": None,
        "tokenize": False,
        "sees_images": False,
        "max_images": None,
        "max_image_pixels": None,
        "cross_family": False,
        "server": f"asymspec-agents/{__version__}",
    }
    assert client.get("/version").json() == {"version": __version__}
    assert client.get("/health").json() == {"status": "ok", "num_requests": 0}
    assert client.get("/openapi.json").json()["openapi"].startswith("3.1")
    assert error_of(client.post("/tokenize", json={"prompt": "a"})) == (404, "not_found", None)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/small", "/v1/asymspec", "/health", "/nope"])
def test_head_is_get_without_the_body(client: httpx.Client, path: str) -> None:
    get, head = client.get(path), client.head(path)
    assert head.status_code == get.status_code
    assert head.headers["content-length"] == get.headers["content-length"]
    assert head.content == b""


def test_unknown_paths_and_methods_are_errors_of_the_same_shape(client: httpx.Client) -> None:
    for path in ("/", "/nope", "/v1", "/v1/chat/completions/", "/v1/embeddings", "//v1/models", "/%00%ff"):
        assert error_of(client.post(path, json=CHAT)) == (404, "not_found", None), path
    for method, path in (("GET", PATH), ("DELETE", "/v1/models"), ("PUT", "/health"), ("PATCH", PATH)):
        answer = client.request(method, path)
        assert error_of(answer) == (405, "method_not_allowed", None)
        assert answer.headers["allow"]


def test_the_first_model_is_the_default_and_others_go_by_their_names(client: httpx.Client) -> None:
    assert client.post(PATH, json=CHAT).json()["model"] == "org/big"
    for name in ("org/big", "small"):
        assert client.post(PATH, json={**CHAT, "model": name}).json()["model"] == name
        text = client.post("/v1/completions", json={"prompt": "a", "model": name}).json()
        assert (text["model"], text["choices"][0]["text"]) == (name, "one two three ")


def test_asymspec_is_the_first_models_alone(client: httpx.Client) -> None:
    asked = {**CHAT, "asymspec": {"edits": []}}
    assert client.post(PATH, json=asked).json()["asymspec"]["accepted"] == 3
    refused = client.post(PATH, json={**asked, "model": "small"})
    assert error_of(refused) == (400, "unsupported_value", "asymspec")


def test_a_harmless_request_id_comes_back_and_any_other_is_replaced(client: httpx.Client) -> None:
    for kind in ({"json": CHAT}, {"json": {**CHAT, "stream": True}}, {"json": {}}, {"content": b"{"}):
        answer = client.post(PATH, headers={"x-request-id": "run/7:step.2"}, **kind)
        assert answer.headers["x-request-id"] == "run/7:step.2"
    assert client.get("/nope", headers={"x-request-id": "a"}).headers["x-request-id"] == "a"
    for wanted in ("", "a b", "a" * 300, "é", 'a"b c', "a\tb"):
        given = client.get("/health", headers={"x-request-id": wanted.encode()}).headers["x-request-id"]
        assert given != wanted
        assert given.isalnum()
    two = [client.get("/health").headers["x-request-id"] for _ in range(2)]
    assert two[0] != two[1]


def test_a_request_id_cannot_smuggle_headers(client: httpx.Client) -> None:
    host, port = client.base_url.host, client.base_url.port
    for smuggled in (b"a\nset-cookie: x=1", b"a\rset-cookie: x=1", b"a\x00b"):
        with socket.create_connection((host, port)) as connection:
            connection.sendall(
                b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-request-id: "
                + smuggled
                + b"\r\n\r\n"
            )
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert b"x=1" not in answer.lower()
    assert client.get("/health").status_code == 200


def test_the_answers_id_holds_the_requests(client: httpx.Client) -> None:
    answer = client.post(PATH, json=CHAT, headers={"x-request-id": "abc"}).json()
    assert answer["id"] == "chatcmpl-abc"


KEYS = ("first-key", "second-key")


@pytest.fixture(scope="module")
def keyed() -> Iterator[tuple[httpx.Client, HeldBackend]]:
    backend = HeldBackend(is_held=False)
    with serving(backend, api_keys=KEYS) as url, httpx.Client(base_url=url, timeout=WAIT_S) as client:
        yield client, backend


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


WRONG = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "first-key"},
    {"authorization": "Basic first-key"},
    bearer("first-ke"),
    bearer("first-key2"),
    bearer("FIRST-KEY"),
    bearer("first-key second-key"),
    {"api-key": "first-key"},
]


@pytest.mark.parametrize("headers", WRONG, ids=range(len(WRONG)))
def test_without_a_right_key_nothing_is_answered(
    keyed: tuple[httpx.Client, HeldBackend], headers: dict[str, str]
) -> None:
    client, backend = keyed
    num_requests = len(backend.requests)
    answers = [client.post(PATH, json=CHAT, headers=headers), client.get("/nope", headers=headers)]
    answers += [client.get(path, headers=headers) for path in ("/v1/models", "/v1/asymspec", "/openapi.json")]
    for answer in answers:
        assert error_of(answer) == (401, "invalid_api_key", None)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "key" not in answer.headers.get("x-request-id", "")
        assert not any(key in answer.text for key in KEYS)
    assert len(backend.requests) == num_requests
    assert client.get("/health", headers=headers).status_code == 200


def test_non_ascii_keys_are_wrong_and_no_error(keyed: tuple[httpx.Client, HeldBackend]) -> None:
    answer = keyed[0].get("/v1/models", headers={"authorization": "Bearer é\xff".encode("latin-1")})
    assert error_of(answer) == (401, "invalid_api_key", None)


def test_every_key_is_right_and_is_a_tenant_of_its_own(keyed: tuple[httpx.Client, HeldBackend]) -> None:
    client, backend = keyed
    del backend.requests[:]
    for key in KEYS:
        for salt in (None, "a"):
            body = {**CHAT, "cache_salt": salt}
            assert client.post(PATH, json=body, headers=bearer(key)).status_code == 200
    salts = [request.cache_salt for request in backend.requests]
    assert len(set(salts)) == 4
    assert not any(key in str(salt) for key in KEYS for salt in salts)
    # The first tenant's salt, sent by the second, is another one.
    client.post(PATH, json={**CHAT, "cache_salt": salts[0]}, headers=bearer(KEYS[1]))
    client.post(PATH, json=CHAT, headers={"authorization": f"bearer   {KEYS[0]}"})
    assert backend.requests[-2].cache_salt not in salts
    assert backend.requests[-1].cache_salt == salts[0]


def test_without_keys_the_clients_salt_is_passed_on() -> None:
    backend = HeldBackend(is_held=False)
    with serving(backend) as url:
        for salt in (None, "a"):
            post(url + PATH, json={**CHAT, "cache_salt": salt}, headers=bearer("whatever"))
    assert [request.cache_salt for request in backend.requests] == [None, "a"]


def test_options_are_checked() -> None:
    for options in (
        {"api_keys": "secret"},
        {"api_keys": ("",)},
        {"api_keys": ("secret\n",)},
        {"api_keys": ("sécret",)},
        {"max_body_bytes": 0},
        {"max_waiting": -1},
        {"max_waiting": 1.5},
        {"keepalive_s": 0},
        {"keepalive_s": float("nan")},
    ):
        with pytest.raises(ConfigurationError, match=next(iter(options))) as raised:
            ServerOptions(**options)
        assert "secret" not in str(raised.value)
    assert "first-key" not in repr(ServerOptions(api_keys=KEYS))
    with pytest.raises(ConfigurationError, match="backends is empty"):
        create_app({})


def test_a_body_over_the_limit_is_a_413_however_it_is_sent() -> None:
    limit = 1_000
    with (
        serving(HeldBackend(is_held=False), max_body_bytes=limit) as url,
        httpx.Client(base_url=url, timeout=WAIT_S) as client,
    ):
        headers = {"content-type": "application/json"}
        for size in (limit + 1, 3_000_000):
            body = b" " * size
            known = client.post(PATH, content=body, headers=headers)
            assert error_of(known) == (413, "body_too_large", None)
            assert f"{size:,} bytes" in known.json()["error"]["message"]
            pieces = (body[start : start + 500] for start in range(0, size, 500))
            unknown = client.post(PATH, content=pieces, headers=headers)
            assert error_of(unknown) == (413, "body_too_large", None)
        right = b'{"messages": [{"role": "user", "content": "a"}]}'.ljust(limit)
        assert client.post(PATH, content=right, headers=headers).status_code == 200
        assert client.post(PATH, content=iter([right[:20], right[20:]]), headers=headers).status_code == 200


def test_a_large_body_refused_by_its_headers_is_told_why() -> None:
    body = b" " * 5_000_000
    with (
        serving(HeldBackend(is_held=False), api_keys=KEYS) as url,
        httpx.Client(base_url=url, timeout=WAIT_S) as client,
    ):
        assert error_of(client.post(PATH, content=body)) == (401, "invalid_api_key", None)
        answer = client.post(PATH, content=body, headers=bearer(KEYS[0]))
        assert error_of(answer) == (415, "unsupported_media_type", None)
        assert error_of(client.post("/nope", content=body, headers=bearer(KEYS[0])))[0] == 404


class Broken(Backend):
    """Fails where it should not."""

    is_broken = False

    @property
    def capabilities(self) -> Capabilities:
        if self.is_broken:
            raise ValueError("a secret")
        return Capabilities("broken", None)

    def stream(self, request: AnyRequest, *, abort: object = None) -> Iterator[ChatDelta]:
        raise ValueError("a secret")


def test_what_is_nobodys_fault_is_a_500_that_tells_no_secrets() -> None:
    backend = Broken()
    with serving(backend) as url:
        backend.is_broken = True
        for answer in (post(url + PATH, json=CHAT), get(url + "/v1/models")):
            assert error_of(answer) == (500, "internal_error", None)
            assert "secret" not in answer.text
        assert get(url + "/health").json() == {"status": "ok", "num_requests": 0}


def test_a_backends_own_failure_says_what_it_was_and_the_next_request_is_answered() -> None:
    backend = ScriptedBackend(
        [BackendError("out of \ud800 memory"), KeyboardInterrupt(), SystemExit(3), "fine"]
    )
    with serving(backend) as url:
        first = post(url + PATH, json=CHAT)
        assert error_of(first) == (500, "engine_error", None)
        assert first.json()["error"]["message"] == "out of \ud800 memory"
        for _ in range(2):
            assert error_of(post(url + PATH, json=CHAT)) == (500, "engine_error", None)
        assert post(url + PATH, json=CHAT).json()["choices"][0]["message"]["content"] == "fine"


def test_answers_with_lone_surrogates_arrive() -> None:
    with serving(ScriptedBackend(["\ud83d\n\x00", "\ud83d"])) as url:
        whole = post(url + PATH, json=CHAT).json()
        assert whole["choices"][0]["message"]["content"] == "\ud83d\n\x00"
        assert "\\ud83d" in post(url + PATH, json={**CHAT, "stream": True}).text
