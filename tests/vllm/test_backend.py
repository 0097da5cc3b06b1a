"""vLLM in this process as a backend: the same answers, refusals and calls as LocalBackend's."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the engine is vLLM's", exc_type=ImportError)

from asymspec_agents.backends import AnyRequest, ChatResponse, CompletionRequest
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.errors import AsymSpecError, RequestAbortedError
from tests.engine.tiny_folder import WEATHER, ask
from vllm_asymspec.backend import VLLMBackend

from .models import save_pair
from .test_server_http import EOS, without_padding_ids

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]


@dataclass
class Both:
    vllm: VLLMBackend
    local: LocalBackend

    def same(self, request: AnyRequest, arm: str = "asymspec") -> ChatResponse:
        """The answer, which both give."""
        mine, theirs = self.local.with_arm(arm).generate(request), self.vllm.with_arm(arm).generate(request)
        assert theirs.content == mine.content
        assert theirs.tool_calls == mine.tool_calls
        assert theirs.finish_reason == mine.finish_reason
        assert theirs.usage.completion_tokens == mine.usage.completion_tokens
        assert (theirs.report is None) == (mine.report is None)
        if theirs.report is not None and mine.report is not None:
            assert theirs.report.mode == mine.report.mode
            assert theirs.report.fallback == mine.report.fallback
            assert theirs.report.verifier_prompt_tokens == mine.report.verifier_prompt_tokens
        return theirs


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    verifier, drafter = save_pair(tmp_path_factory.mktemp("backend"))
    for model in (verifier, drafter):
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS}))
        without_padding_ids(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        vllm = VLLMBackend.start(
            str(verifier),
            str(drafter),
            num_draft_tokens=3,
            dtype="float32",
            enforce_eager=True,
            max_model_len=512,
            max_num_seqs=8,
            kv_cache_memory_bytes=8_000_000,
        )
    yield Both(vllm, LocalBackend.load(str(verifier), str(drafter), dtype="float32"))
    vllm.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "product"}, {"mode": "strict", "num_draft_tokens": 1}, {"bonus": "none"}],
    ids=str,
)
def test_chats(both: Both, options: dict[str, Any]) -> None:
    response = both.same(ask(options=options, max_tokens=40))
    assert response.report is not None
    assert response.report.drafted > 0


def test_plain_requests_identical_views_and_arms(both: Both) -> None:
    both.same(ask(edits=None, max_tokens=30))
    both.same(ask(edits=[], max_tokens=30))
    for arm in ("floor", "ceiling"):
        both.same(ask(max_tokens=30), arm)


def test_completions(both: Both) -> None:
    both.same(CompletionRequest(prompt="hello there", asymspec={"prompt": (5, 6)}, max_tokens=12))  # type: ignore[arg-type]


def test_answers_under_a_grammar(both: Both) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}
    wanted = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {**schema, "additionalProperties": False}},
    }
    for asymspec in ([{"message": 1, "text": "n?"}], None):
        response = both.same(ask(edits=asymspec, response_format=wanted, max_tokens=200))
        assert json.loads(response.content) == {"n": 7}
    called = both.same(
        ask(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=150)
    )
    assert called.finish_reason in ("tool_calls", "length")


def test_a_stop_string_and_the_limit(both: Both) -> None:
    text = both.same(ask(max_tokens=40)).content
    readable = next(
        letter for letter in text[3:] if letter.isprintable() and letter != "\N{REPLACEMENT CHARACTER}"
    )
    assert both.same(ask(max_tokens=40, stop=(readable,))).finish_reason == "stop"
    assert both.same(ask(max_tokens=1)).usage.completion_tokens == 1


@pytest.mark.parametrize(
    "request_",
    [
        ask(temperature=0.5),
        ask(max_tokens=5_000),
        ask(extra={"n": 2}),
        ask([{"role": "user", "content": "x" * 3_000}], edits=[{"message": 0, "text": "x"}]),
        CompletionRequest(prompt=(1, 2), asymspec={"prompt": (400,)}),  # type: ignore[arg-type]
        CompletionRequest(prompt=(1, 2), asymspec={"prompt": ()}),  # type: ignore[arg-type]
    ],
    ids=["sampling", "long answer", "two answers", "long view", "unknown id", "empty view"],
)
def test_refusals_are_of_the_same_kind(both: Both, request_: AnyRequest) -> None:
    with pytest.raises(AsymSpecError) as mine:
        both.local.generate(request_)
    with pytest.raises(AsymSpecError) as theirs:
        both.vllm.generate(request_)
    assert type(theirs.value) is type(mine.value)


def test_sampling_of_plain_requests_is_reproducible(both: Both) -> None:
    request = ask(edits=None, temperature=1.0, seed=3, max_tokens=20)
    assert both.vllm.generate(request).content == both.vllm.generate(request).content


def test_many_callers(both: Both) -> None:
    requests = [ask([{"role": "user", "content": f"Count {i}"}], edits=[], max_tokens=20) for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(both.vllm.generate, requests))

    async def gathered() -> list[ChatResponse]:
        return list(await asyncio.gather(*(both.vllm.agenerate(request) for request in requests)))

    alone = [both.local.generate(request).content for request in requests]
    assert [response.content for response in together] == alone
    assert [response.content for response in asyncio.run(gathered())] == alone


def test_an_abort_ends_the_stream_and_frees_the_place(both: Both) -> None:
    abort = threading.Event()
    stream = both.vllm.stream(ask(max_tokens=400), abort=abort)
    next(stream)
    abort.set()
    with pytest.raises(RequestAbortedError):
        list(stream)
    closed = both.vllm.stream(ask(max_tokens=400))
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    both.same(ask(max_tokens=10))


def test_what_it_says_of_itself(both: Both) -> None:
    can = both.vllm.capabilities
    assert can.max_verifier_tokens == 511
    assert can.max_drafter_tokens is not None
    assert can.max_drafter_tokens > 511
    assert both.vllm.count_prompt(ask().messages) == both.local.count_prompt(ask().messages)


def test_close_leaves_nothing_behind(both: Both) -> None:
    """The module's last test. An engine that outlives it ends with an error at the interpreter's end."""
    engine = weakref.ref(both.vllm.engine._engine)  # type: ignore[attr-defined]
    both.vllm.close()
    gc.collect()  # here, where its warnings are ignored, and not under a later module's test
    assert engine() is None
    assert not multiprocessing.active_children()
    assert "asymspec-http" not in {thread.name for thread in threading.enumerate()}
