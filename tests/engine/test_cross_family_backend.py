"""Two folders with different tokenizers as one backend, one server and one command line."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from asymspec_agents.backends.http import HTTPBackend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.backends.request import ChatRequest, CompletionRequest
from asymspec_agents.decoding.coverage import coverage
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.decoding.vocab import VocabMap
from asymspec_agents.decoding.vocab_file import load_map, save_map
from asymspec_agents.engine.engine import EngineOptions
from asymspec_agents.engine.load import load_pair, load_speller, load_tokenizer
from asymspec_agents.errors import (
    ConfigurationError,
    ContextOverflowError,
    IncompatibleModelsError,
    ServerError,
    UnsupportedRequestError,
)
from asymspec_agents.messages import FunctionSpec, Message, ToolSpec
from asymspec_agents.protocol import AsymSpecCompletion, AsymSpecRequest
from asymspec_agents.trace import MemoryRecorder
from tests.decoding.made_tokenizers import made, transcriber, vocabulary
from tests.server.serving import serving

from .tiny_folder import ask, save_model
from .two_families import models

CPU: dict[str, Any] = {"dtype": "float32", "device": "cpu"}
WORDS = "The committee of 2024 said that 1,250 prices were approved. " * 2
EDITS = [{"message": 0, "text": "The committee said 12."}]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Folders of a verifier and of a drafter of another family."""
    folder = tmp_path_factory.mktemp("families")
    for name, model in zip(("words", "digits"), models("words", "digits"), strict=True):
        save_model(folder / name, model.module, made(name))
    return str(folder / "words"), str(folder / "digits")


@pytest.fixture(scope="module")
def backend(pair: tuple[str, str]) -> LocalBackend:
    return LocalBackend.load(*pair, **CPU, vocab_map="auto")


def _request(edits: Any = EDITS, **fields: Any) -> ChatRequest:
    options = fields.pop("options", {})
    return ask([Message(role="user", content=WORDS)], edits=edits, options=options, **fields)


def test_without_a_map_the_error_names_it(pair: tuple[str, str]) -> None:
    with pytest.raises(IncompatibleModelsError, match=r'different tokenizers; .*\(vocab_map="auto"'):
        load_pair(*pair, **CPU)


def test_a_map_may_be_made_given_or_read(
    pair: tuple[str, str], backend: LocalBackend, tmp_path: Path
) -> None:
    expected = backend.generate(_request())
    vocab_map = VocabMap.build(vocabulary("words"), vocabulary("digits"))
    save_map(vocab_map, tmp_path / "map.json")
    for choice in (vocab_map, tmp_path / "map.json", str(tmp_path / "map.json")):
        other = LocalBackend.load(*pair, **CPU, vocab_map=choice)
        assert other.generate(_request()) == expected


def test_a_file_that_pairs_nothing_or_other_bytes_is_refused(pair: tuple[str, str], tmp_path: Path) -> None:
    vocab_map = VocabMap.build(vocabulary("words"), vocabulary("digits"))
    for ids, told in (((), "no token in common"), (vocab_map.drafter_ids[::-1], "spells other bytes")):
        pairs = {"verifier_ids": vocab_map.verifier_ids[: len(ids)], "drafter_ids": ids}
        save_map(replace(vocab_map, **pairs), tmp_path / "map.json")
        with pytest.raises(IncompatibleModelsError, match=told):
            LocalBackend.load(*pair, **CPU, vocab_map=tmp_path / "map.json")


@pytest.mark.parametrize(
    ("choice", "error", "text"),
    [
        ("nowhere.json", ConfigurationError, "cannot be read"),
        ("map.pkl", ConfigurationError, "a .json or a .safetensors file"),
        (
            VocabMap.build(vocabulary("digits"), vocabulary("words")),
            IncompatibleModelsError,
            "made for a verifier with another vocabulary",
        ),
    ],
)
def test_wrong_maps_are_refused_before_a_model_is_loaded(
    choice: Any, error: type[Exception], text: str, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asymspec_agents.engine.load.load_model", None)
    with pytest.raises(error, match=text):
        LocalBackend.load(*pair, **CPU, vocab_map=choice)


def test_one_family_needs_no_map_and_may_have_one(pair: tuple[str, str]) -> None:
    plain, auto = (LocalBackend.load(pair[0], pair[0], **CPU, vocab_map=choice) for choice in (None, "auto"))
    assert plain.engine.family is auto.engine.family is None
    assert not auto.capabilities.cross_family
    identity = VocabMap.build(vocabulary("words"), vocabulary("words"))
    mapped = LocalBackend.load(pair[0], pair[0], **CPU, vocab_map=identity)
    assert mapped.capabilities.cross_family
    assert mapped.generate(_request()).content == plain.generate(_request()).content


def test_each_model_reads_the_chat_as_its_own_template_writes_it(backend: LocalBackend) -> None:
    recorder = MemoryRecorder()
    backend.engine.recorder = recorder
    response = backend.generate(_request())
    report = response.report
    assert report is not None
    assert backend.drafter_template is not None
    request = _request()
    own = backend.drafter_template.ids(request.messages)
    assert made("digits").decode(own[:1]) == "[INST]"
    assert report.drafter_prompt_tokens == len(own)
    short = [Message(role="user", content=EDITS[0]["text"])]
    assert report.verifier_prompt_tokens == len(backend.template.ids(short))
    begun = next(event for event in recorder.events if event.event == "request")
    assert begun.prompt_tokens.base == len(backend.drafter_template.ids(short))  # type: ignore[union-attr]
    assert report.cross_family is not None
    assert report.cross_family.mapped_tokens == len(transcriber("words", "digits").to_drafter)
    assert report.accepted + report.fused >= (response.usage.completion_tokens if response.usage else 0)


def test_a_drafter_sees_tools_as_its_own_template_shows_them(backend: LocalBackend) -> None:
    tool = ToolSpec(function=FunctionSpec(name="total", description="12", parameters={"type": "object"}))
    forced = backend.generate(_request(tools=(tool,), tool_choice="required", max_tokens=60))
    assert forced.report is not None
    assert forced.report.cross_family is not None
    allowed = backend.generate(_request(response_format={"type": "json_object"}, max_tokens=60))
    assert allowed.content.startswith("{")


def test_the_drafter_alone_answers_in_its_own_tokens(pair: tuple[str, str], backend: LocalBackend) -> None:
    alone = backend.with_arm("drafter")
    expected = LocalBackend.load(pair[1], pair[1], **CPU).generate(_request(None))
    assert alone.generate(_request(None)).content == expected.content
    assert alone.count_prompt(_request().messages) == expected.usage.prompt_tokens  # type: ignore[union-attr]
    ids = tuple(load_tokenizer(pair[1]).encode(WORDS))
    text, given = (CompletionRequest(prompt=prompt, max_tokens=9) for prompt in (WORDS, ids))
    assert alone.generate(text).content == alone.generate(given).content
    allowed = alone.generate(_request(None, response_format={"type": "json_object"}, max_tokens=60))
    assert allowed.content.startswith("{")


def test_a_plain_request_is_the_verifiers(pair: tuple[str, str], backend: LocalBackend) -> None:
    expected = LocalBackend.load(pair[0], pair[0], **CPU).generate(_request(None))
    assert backend.generate(_request(None)).content == expected.content
    identical = backend.generate(_request([]))
    assert identical.content == expected.content
    assert identical.report is not None
    assert identical.report.fallback == "identical_views"


def test_completions_of_texts_and_of_ids(backend: LocalBackend) -> None:
    short = "The committee 12"
    ids = [tuple(backend.template.tokenizer.encode(text)) for text in (WORDS, short)]
    answers = [
        backend.generate(
            CompletionRequest(prompt=full, max_tokens=12, asymspec=AsymSpecCompletion(prompt=compressed))
        )
        for full, compressed in ((WORDS, short), ids)
    ]
    assert answers[0].content == answers[1].content
    assert answers[0].report is not None
    assert backend.drafter_template is not None
    own = backend.drafter_template.tokenizer.encode(WORDS)
    assert answers[0].report.drafter_prompt_tokens == len(own)


def test_what_a_map_cannot_serve_is_refused_or_falls_back_as_asked(backend: LocalBackend) -> None:
    assert set(backend.capabilities.modes) == {m for m, r in MODES.items() if r.delta in ("context", "none")}
    with pytest.raises(UnsupportedRequestError, match="delta='full'"):
        backend.generate(_request(options={"mode": "product"}))
    answer = backend.generate(_request(options={"mode": "product", "on_unsupported": "verifier"}))
    assert answer.report is not None
    assert (answer.report.mode, answer.report.fallback) == ("floor", "cross_family_delta")
    assert answer.report.cross_family is None
    floor = backend.with_arm("floor").generate(_request())
    assert answer.content == floor.content


def test_a_router_counts_as_the_model_that_needs_more_tokens(
    backend: LocalBackend, pair: tuple[str, str]
) -> None:
    request = _request()
    assert backend.drafter_template is not None
    own, counted = len(backend.drafter_template.ids(request.messages)), backend.count_prompt(request.messages)
    assert counted < own == backend.prompt_counter(request.messages, ())
    tight = LocalBackend.load(
        *pair, **CPU, vocab_map="auto", options=EngineOptions(max_drafter_tokens=own - 1)
    )
    with pytest.raises(ContextOverflowError, match=f"the full view has {own} tokens.*read by the drafter"):
        tight.generate(request)


def test_a_server_of_two_families(backend: LocalBackend) -> None:
    names = backend.capabilities
    assert names.drafter is not None
    served = {names.verifier: backend, names.drafter: backend.with_arm("drafter")}
    with serving(served) as url:
        info = httpx.get(f"{url}/v1/asymspec").json()
        assert info["cross_family"] is True
        assert "product" not in info["modes"]
        with contextlib.closing(HTTPBackend(url)) as remote:
            assert remote.capabilities.cross_family
            expected, got = backend.generate(_request()), remote.generate(_request())
            assert (got.content, got.usage) == (expected.content, expected.usage)
            assert got.report is not None
            assert got.report.cross_family is not None
            assert expected.report is not None
            assert got.report.cross_family == expected.report.cross_family
            with pytest.raises((ServerError, ConfigurationError), match="another family"):
                remote.generate(_request(options={"mode": "raw_full"}))
        body = {"model": names.drafter, "messages": [{"role": "user", "content": WORDS}]}
        count = httpx.post(f"{url}/tokenize", json=body).json()["count"]
        assert count == backend.with_arm("drafter").count_prompt(_request().messages)


def test_the_command_builds_and_shows_maps(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from asymspec_agents.cli import main as cli

    path = tmp_path / "map.safetensors"
    sample = tmp_path / "sample.txt"
    sample.write_text("the unprecedented 12")
    assert cli.main(["vocab", "build", *pair, "-o", str(path)]) == 0
    assert "share of a text's bytes" in capsys.readouterr().out
    expected = transcriber("words", "digits").vocab_map
    assert load_map(path).to_drafter == expected.to_drafter
    assert cli.main(["vocab", "show", str(path)]) == 0
    assert f"{len(expected):,}" in capsys.readouterr().out
    for names in (pair, (str(path), *pair)):
        assert cli.main(["vocab", "show", *names, "--sample", str(sample), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["num_mapped"] == len(expected)
        found = coverage(expected, *map(load_speller, pair), "the unprecedented 12")
        assert (facts["verifier_tokens"], facts["drafter_bytes"]) == (
            found.verifier_tokens,
            found.drafter_bytes,
        )
        assert ["<|im_end|>", "[/S]"] in facts["roles"]
    assert cli.main(["vocab", "show", str(path), "--sample", str(sample)]) == 2
    assert "--sample" in capsys.readouterr().err
    assert cli.main(["vocab", "show", str(path), pair[1], pair[0]]) == 2
    assert "made for a verifier with another vocabulary" in capsys.readouterr().err
    assert cli.main(["vocab", "show", str(path), *pair, "more"]) == 2
    assert cli.main(["vocab", "build", "no", "model", "-o", "map.pkl"]) == 2
    assert ".safetensors" in capsys.readouterr().err


def test_the_report_travels_as_an_object(backend: LocalBackend) -> None:
    report = backend.generate(_request()).report
    assert report is not None
    again = type(report).model_validate_json(report.model_dump_json())
    assert again == report
    assert AsymSpecRequest.model_validate({"edits": EDITS}).edits
