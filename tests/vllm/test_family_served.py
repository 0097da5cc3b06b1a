"""A drafter of another family in vLLM's real server and in VLLMBackend: the answers of the engine here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the server is vLLM's", exc_type=ImportError)

from asymspec_agents.backends import AnyRequest, ChatResponse, CompletionRequest, HTTPBackend
from asymspec_agents.backends.base import Backend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.decoding.vocab_file import save_map
from asymspec_agents.errors import ConfigurationError, IncompatibleModelsError, UnsupportedRequestError
from tests.engine.tiny_folder import ask
from vllm_asymspec.backend import VLLMBackend

from .family_machine import paper_family
from .family_models import Pair
from .served import serving

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # vLLM's own

K = 3


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    pair = Pair(tmp_path_factory.mktemp("pair"), ("words", "digits"), (640, 448))
    for folder, vocabulary in zip(
        pair.folders, (pair.family.transcriber.verifier, pair.family.transcriber.drafter), strict=True
    ):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": vocabulary.end_of_turn}))
    return pair


@pytest.fixture(scope="module")
def local(pair: Pair) -> LocalBackend:
    verifier, drafter = map(str, pair.folders)
    return LocalBackend.load(verifier, drafter, dtype="float32", vocab_map="auto")


def same_text(mine: ChatResponse, theirs: ChatResponse) -> bool:
    """Whether vLLM's text is ours but for its end: of bytes there that are no text, it may show nothing."""
    shown = theirs.content.rstrip("\N{REPLACEMENT CHARACTER}")
    return mine.content.startswith(shown) and len(mine.content) - len(shown) <= 6


@dataclass
class Served:
    """vLLM in one form, and the engine that it must equal."""

    backend: Backend
    local: LocalBackend

    def same(self, request: AnyRequest) -> ChatResponse:
        """The answer, which both give."""
        mine, theirs = self.local.generate(request), self.backend.generate(request)
        assert same_text(mine, theirs)
        assert theirs.finish_reason == mine.finish_reason
        assert theirs.usage.completion_tokens == mine.usage.completion_tokens
        assert theirs.usage.prompt_tokens == mine.usage.prompt_tokens
        assert (theirs.report is None) == (mine.report is None)
        if theirs.report is not None and mine.report is not None:
            for name in ("mode", "fallback", "verifier_prompt_tokens", "drafter_prompt_tokens"):
                assert getattr(theirs.report, name) == getattr(mine.report, name)
            assert theirs.report.cross_family is not None
            assert mine.report.cross_family is not None
            shares = "mapped_tokens", "verifier_coverage", "drafter_coverage"
            for name in shares:
                assert getattr(theirs.report.cross_family, name) == getattr(mine.report.cross_family, name)
        return theirs


@pytest.fixture(scope="module", params=["server", "in process"])
def served(
    request: pytest.FixtureRequest, pair: Pair, local: LocalBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    if request.param == "server":
        folder = tmp_path_factory.mktemp("server")
        flags = ("--vocab-map", "auto", "--num-draft-tokens", str(K))
        with serving(folder, *pair.folders, *flags) as url:
            backend = HTTPBackend(url)
            yield Served(backend, local)
            backend.close()
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        vllm = VLLMBackend.start(
            *map(str, pair.folders),
            vocab_map="auto",
            num_draft_tokens=K,
            dtype="float32",
            enforce_eager=True,
            max_model_len=512,
            max_num_seqs=8,
            kv_cache_memory_bytes=8_000_000,
        )
    yield Served(vllm, local)
    vllm.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "cda_only", "num_draft_tokens": 1}, {"mode": "fused_greedy"}, {"bonus": "none"}],
    ids=str,
)
def test_chats(served: Served, options: dict[str, Any]) -> None:
    response = served.same(ask(options=options, max_tokens=60))
    assert response.report is not None
    assert response.report.accepted > 0
    assert response.report.cross_family is not None


def test_plain_requests_and_identical_views(served: Served) -> None:
    plain = served.same(ask(edits=None, max_tokens=30))
    assert plain.report is None
    identical = served.same(ask(edits=[], max_tokens=30))
    assert identical.content == plain.content
    assert identical.report is not None
    assert (identical.report.mode, identical.report.fallback) == ("strict", "identical_views")


@pytest.mark.parametrize(("prompt", "short"), [("hello there friend", "hello"), ((5, 6, 7, 8), (7, 8))])
def test_completions_of_texts_and_of_the_verifiers_ids(served: Served, prompt: Any, short: Any) -> None:
    served.same(CompletionRequest(prompt=prompt, asymspec={"prompt": short}, max_tokens=20))  # type: ignore[arg-type]


def test_a_conversation_goes_on(served: Served) -> None:
    request: Callable[..., Any] = ask
    messages = [{"role": "user", "content": "What is 120 and 2024? " * 5}]
    for _ in range(3):
        response = served.same(request(messages, edits=[{"message": 0, "text": "Numbers?"}], max_tokens=25))
        messages += [
            {"role": "assistant", "content": response.content},
            {"role": "user", "content": "And then, unbelievable 12?"},
        ]


def test_what_a_map_can_not_serve_is_refused(served: Served) -> None:
    for options in ({"mode": "raw_full"}, {"mode": "scd_delta"}, {"gate": "cda", "delta": "full"}):
        with pytest.raises(UnsupportedRequestError, match="delta"):
            served.backend.generate(ask(options=options))
    rather = ask(options={"mode": "raw_full", "on_unsupported": "verifier"}, max_tokens=20)
    response = served.backend.generate(rather)
    assert response.report is not None
    assert (response.report.mode, response.report.fallback) == ("floor", "cross_family_delta")
    assert same_text(served.local.generate(rather), response)


def test_what_it_says_of_itself(served: Served) -> None:
    mine, theirs = served.local.capabilities, served.backend.capabilities
    assert theirs.cross_family
    assert theirs.modes == mine.modes
    assert "raw_full" not in theirs.modes


def test_without_a_map_the_pair_is_refused_at_once(pair: Pair) -> None:
    with pytest.raises(IncompatibleModelsError, match="vocab_map"):
        VLLMBackend.start(*map(str, pair.folders))


def test_asynchronous_scheduling_of_such_a_pair_is_refused(pair: Pair) -> None:
    with pytest.raises(ConfigurationError, match=r"async_scheduling: .*pad-drafter"):
        VLLMBackend.start(*map(str, pair.folders), vocab_map="auto", async_scheduling=True)


def test_a_map_of_other_vocabularies_is_refused_at_the_start(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    save_map(paper_family("words", "pieces", is_thin=False).vocab_map, path)
    with pytest.raises(IncompatibleModelsError, match="another vocabulary"):
        VLLMBackend.start(*map(str, pair.folders), vocab_map=path)
