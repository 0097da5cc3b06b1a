"""The real server, started by the command and driven over HTTP: the same answers as the engine here."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("vllm", reason="the server is vLLM's", exc_type=ImportError)

from asymspec_agents.backends import ChatResponse, CompletionRequest, HTTPBackend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.errors import ContextOverflowError, UnsupportedRequestError
from tests.architecture import ROOT
from tests.engine.tiny_folder import FULL, SHORT, WEATHER, ask

from .models import NUM_IDS, save_pair
from .served import serving

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]

EOS = 257  # the tokenizer's


@dataclass
class Server:
    """A running server and the engine that it must equal."""

    url: str
    http: HTTPBackend
    local: LocalBackend

    def metric(self, name: str) -> float:
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def without_padding_ids(model: Path) -> None:
    """Makes ids beyond the tokenizer as unlikely as in a trained model; plain vLLM may emit them."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(model / "model.safetensors")
    tensors["lm_head.weight"][NUM_IDS:] = 0
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    verifier, drafter = save_pair(folder)
    for model in (verifier, drafter):
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS}))
        without_padding_ids(model)
    flags = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    with serving(folder, verifier, drafter, "--num-draft-tokens", "3", *flags) as url:
        backend = HTTPBackend(url)
        try:
            yield Server(url, backend, LocalBackend.load(str(verifier), str(drafter), dtype="float32"))
        finally:
            backend.close()


def same(one: ChatResponse, other: ChatResponse) -> None:
    """The same text; of a character that the limit cut, one shows a mark and the other nothing."""
    mark = "\N{REPLACEMENT CHARACTER}"
    assert one.content.rstrip(mark) == other.content.rstrip(mark)
    assert one.finish_reason == other.finish_reason
    assert one.usage.prompt_tokens == other.usage.prompt_tokens
    assert one.usage.completion_tokens == other.usage.completion_tokens


OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_draft_tokens": 1},
    {"mode": "product", "num_draft_tokens": 3},
    {"gate": "slack", "delta": "context", "slack": 0.5},
    {"mode": "strict"},
    {"bonus": "none"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_text_as_the_engine_here(server: Server, options: dict[str, Any]) -> None:
    request = ask(options=options, max_tokens=40)
    mine, theirs = server.local.generate(request), server.http.generate(request)
    same(mine, theirs)
    assert mine.report is not None
    assert theirs.report is not None
    assert theirs.report.mode == mine.report.mode
    assert theirs.report.drafter_prompt_tokens == mine.report.drafter_prompt_tokens
    report = theirs.report
    assert report.accepted + report.fused + report.bonus >= theirs.usage.completion_tokens
    assert sum(report.accepted_per_position) == report.accepted <= report.drafted


def test_plain_requests_and_identical_views(server: Server) -> None:
    plain = ask(edits=None, max_tokens=30)
    theirs = server.http.generate(plain)
    same(server.local.generate(plain), theirs)
    assert theirs.report is None
    identical = server.http.generate(ask(edits=[], max_tokens=30))
    assert identical.content == theirs.content
    assert identical.report is not None
    assert (identical.report.mode, identical.report.fallback) == ("strict", "identical_views")


def test_a_stream_is_the_whole_answer(server: Server) -> None:
    request = ask(max_tokens=30)
    deltas = list(server.http.stream(request))
    whole = server.http.generate(request)
    assert len(deltas) > 2
    assert "".join(delta.content for delta in deltas) == whole.content
    assert deltas[-1].report is not None
    assert deltas[-1].report.drafted > 0


def test_completions(server: Server) -> None:
    for prompt, short in (("hello there friend", "hello"), ((5, 6, 7, 8), (7, 8))):
        request = CompletionRequest(prompt=prompt, asymspec={"prompt": short}, max_tokens=12)  # type: ignore[arg-type]
        same(server.local.generate(request), server.http.generate(request))


def test_many_at_once_as_one_by_one(server: Server) -> None:
    requests = [
        ask([{"role": "user", "content": f"Question {i}: " + "words and " * i}], edits=edits, max_tokens=20)
        for i, edits in enumerate([[{"message": 0, "text": "Short?"}], None] * 4, 1)
    ]
    with ThreadPoolExecutor(len(requests)) as pool:
        together = list(pool.map(server.http.generate, requests))
    for request, response in zip(requests, together, strict=True):
        same(server.local.generate(request), response)


def test_a_stop_string_ends_the_answer_and_is_reported(server: Server) -> None:
    text = server.http.generate(ask(max_tokens=40)).content
    readable = [
        letter for letter in text[3:] if letter.isprintable() and letter != "\N{REPLACEMENT CHARACTER}"
    ]
    stop = readable[0]
    response = server.http.generate(ask(max_tokens=40, stop=(stop,)))
    assert response.content == text[: text.index(stop)]
    assert response.finish_reason == "stop"
    assert response.report is not None
    assert response.report.drafted > 0


def test_a_forced_call_keeps_to_the_grammar(server: Server) -> None:
    """A random model then writes white space for ever: only the call's beginning is certain."""
    strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
    signature = {"type": "function", "function": {"name": "weather", "description": ""}}
    request = ask(tools=[strict], tool_choice="required", max_tokens=60, options={"tools": [signature]})
    response = server.http.generate(request)
    if not response.tool_calls:
        assert response.content.startswith('<tool_call>{"name": "weather", "arguments": {')
    assert response.report is not None
    assert response.report.verifier_prompt_tokens < response.report.drafter_prompt_tokens


def test_prefixes_are_found_again_but_not_across_salts(server: Server) -> None:
    messages = [{"role": "user", "content": "a document " * 40}]
    request = ask(messages, edits=[{"message": 0, "text": "a doc"}], max_tokens=3, cache_salt="one")
    first, again = server.http.generate(request), server.http.generate(request)
    other = server.http.generate(replace(request, cache_salt="two"))
    assert first.report is not None
    assert again.report is not None
    assert other.report is not None
    assert (first.report.cached_tokens.drafter, other.report.cached_tokens.drafter) == (0, 0)
    assert again.report.cached_tokens.drafter > 0


def test_refusals_are_the_engines_own(server: Server) -> None:
    with pytest.raises(UnsupportedRequestError, match="temperature"):
        server.http.generate(ask(temperature=0.5))
    long = [{"role": "user", "content": "x" * 5_000}]
    with pytest.raises(ContextOverflowError) as raised:
        server.http.generate(ask(long, edits=[{"message": 0, "text": "x"}]))
    assert raised.value.view == "full"
    fallback = {"on_unsupported": "verifier"}
    response = server.http.generate(ask(long, edits=[{"message": 0, "text": "x"}], options=fallback))
    assert response.report is not None
    assert (response.report.mode, response.report.fallback) == ("floor", "full_view_overflow")


def test_openais_client(server: Server) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        completion = client.chat.completions.create(
            model="pair",
            messages=list(FULL),
            max_tokens=10,
            temperature=0,
            extra_body={"asymspec": {"edits": list(SHORT)}},
        )
    assert completion.choices[0].message.content == server.http.generate(ask(max_tokens=10)).content
    assert completion.asymspec["mode"] == "asymspec"


# A connection that is cut in mid-stream may be collected before its event loop has closed it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_that_leaves_frees_its_place(server: Server) -> None:
    name = 'asymspec_requests_total{arm="asymspec",mode="asymspec",outcome="aborted"}'
    before = server.metric(name)
    deadline = time.monotonic() + 120
    while server.metric(name) == before:  # a busy machine may hear of it too late
        assert time.monotonic() < deadline
        stream = server.http.stream(ask(max_tokens=400, extra={"ignore_eos": True}), abort=threading.Event())
        next(stream)
        stream.close()
        while server.metric("vllm:num_requests_running"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    del stream
    gc.collect()  # here, where the warning is filtered; earlier it would keep the client from closing in time
    assert server.metric("asymspec_pool_usage_ratio") <= 1


def test_the_doctor_finds_a_whole_server(server: Server) -> None:
    line = [sys.executable, "-m", "asymspec_agents", "doctor", server.url, "--timeout", "120", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)
    failed = [finding for finding in findings if finding["status"] == "FAIL"]
    assert not failed, failed
