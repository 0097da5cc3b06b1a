"""Query-aware extraction: what is kept, how gaps show, and how much of real questions' evidence survives."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("bm25s")

from asymspec_agents.compress.extractive import Extractive
from asymspec_agents.compress.ranking import Bm25Ranker, NoRanker, relevance
from asymspec_agents.compress.segments import segment
from asymspec_agents.compress.terms import query_terms, terms
from asymspec_agents.store import short_reference
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
FILLER = [
    f"{city}\nThe town of {city} has a market, two schools and a railway station. Its mayor changes often."
    for city in ("Alba", "Borna", "Celle", "Demmin", "Erlau", "Forst", "Gera", "Halle", "Ilmenau", "Jena")
]
LIGHTHOUSE = "Lighthouse\nThe lighthouse of Kap Arkona was designed by Karl Schinkel. It is built of brick."
ARCHITECT = "Karl Schinkel\nKarl Schinkel was an architect. He came from Neuruppin in Brandenburg."


def extract(text: str, query: str, target_tokens: int) -> str:
    return Extractive().compress(text, query=query, target_tokens=target_tokens, counter=COUNTER).text


def test_the_passages_that_bear_on_the_query_stay_in_order_under_their_headings() -> None:
    text = "\n\n".join([*FILLER[:5], LIGHTHOUSE, *FILLER[5:]])
    shortened = extract(text, "Who designed the lighthouse?", 110)
    assert "Lighthouse\nThe lighthouse of Kap Arkona was designed by Karl Schinkel." in shortened
    places = [text.index(part) for part in re.split(r"\s*\[….*…?\]\s*", shortened) if part]
    assert places == sorted(places)
    assert len(places) > 1


def test_a_second_step_is_followed() -> None:
    text = "\n\n".join([*FILLER[:3], ARCHITECT, *FILLER[3:7], LIGHTHOUSE, *FILLER[7:]])
    assert "Neuruppin" in extract(text, "Where did the designer of the lighthouse come from?", 150)


def test_gaps_and_the_total_are_marked() -> None:
    text = "\n\n".join([*FILLER[:5], LIGHTHOUSE, *FILLER[5:]])
    shortened = extract(text, "Who designed the lighthouse?", 110)
    body, end = shortened.rsplit("\n", 1)
    assert re.fullmatch(rf"\[… [\d,]+ characters left out; {short_reference(text)} …\]", end)
    assert "\n[…]\n" in body
    kept = sum(len(part) for part in re.split(r"\n?\[…\]\n?", body))
    assert abs(len(text) - kept - int(re.findall(r"[\d,]+", end)[0].replace(",", ""))) <= 30


@pytest.mark.parametrize("query", ["", "   ", "the of and", "zyzzyva"])
def test_without_a_match_head_and_tail_are_kept(query: str) -> None:
    text = "\n\n".join(FILLER)
    rendition = Extractive().compress(text, query=query, target_tokens=100, counter=COUNTER)
    assert rendition.compressor == "headtail"
    assert rendition.text.startswith("Alba")


def test_cjk_text_is_searched_by_characters() -> None:
    filler = ["这座城市有许多公园和学校。", "天气很好，人们在河边散步。", "市场每天早上六点开门。"] * 20
    text = "".join([*filler, "灯塔是由卡尔设计的。", *filler])
    assert "灯塔是由卡尔设计的。" in extract(text, "谁设计了灯塔？", 100)


def test_initials_and_abbreviations_end_no_sentence() -> None:
    text = "It began with G. Stanley Hall and Dr. Smith. Then it ended."
    (passage,) = segment(text)
    assert [text[span.start : span.end] for span in passage.sentences] == [
        "It began with G. Stanley Hall and Dr. Smith.",
        "Then it ended.",
    ]


def test_terms_split_identifiers_and_fold_case() -> None:
    assert terms("getUserToken HTTP_ERROR 3.14 Running") == [
        *("getusertoken", "get", "user", "token", "http", "error", "3", "14", "runn")
    ]
    assert terms("灯塔站 ab") == ["灯塔", "塔站", "ab"]
    assert query_terms("What is the name of the lighthouse?") == ["lighthouse"]
    assert len(query_terms("word " * 100_000 + " ".join(f"w{i}" for i in range(9999)))) <= 512


def test_relevance_of_very_many_texts_still_finds_the_match() -> None:
    texts = [f"row {number} of the common kind" for number in range(5000)]
    texts[4321] = "row about a lighthouse"
    scores = relevance(Bm25Ranker(), texts, query_terms("common lighthouse"))
    assert max(range(5000), key=scores.__getitem__) == 4321
    assert len(scores) == 5000
    assert relevance(NoRanker(), texts, ["row"]) == [0.0] * 5000
    assert relevance(Bm25Ranker(), ["", "  "], ["row"]) == [0.0, 0.0]


def test_evidence_of_multi_hop_questions_survives_at_a_third_of_the_tokens() -> None:
    folder = os.environ.get("ASYMSPEC_DATA")
    if not folder:
        pytest.skip("ASYMSPEC_DATA is not set: the folder of public records with multihop/")
    supporting = kept = 0
    answers = found = 0
    for name in ("hotpotqa", "musique"):
        for line in (Path(folder) / "multihop" / f"{name}.jsonl").read_text("utf-8").splitlines():
            record = json.loads(line)
            text = record["context"]
            target_tokens = int(0.3 * COUNTER.count(text))
            shortened = extract(text, record["input"], target_tokens)
            assert COUNTER.count(shortened) <= target_tokens
            passages = re.split(r"(?m)^Passage \d+:\n", text)[1:]
            for number in record["supporting_passages"]:
                sentences = re.split(r"(?<=[.!?])\s+", passages[number - 1].split("\n", 1)[1].strip())
                supporting += 1
                kept += any(sentence in shortened for sentence in sentences)
            if any(answer in text for answer in record["answers"]):
                answers += 1
                found += any(answer in shortened for answer in record["answers"])
    assert kept / supporting >= 0.9
    assert found / answers >= 0.8
