"""Query-aware extraction: what is kept, how gaps show, and how much of real questions' evidence survives."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("bm25s")

from asymspec_agents.compress.extractive import Extractive
from asymspec_agents.compress.linked import LinkedPassage, linked_scores
from asymspec_agents.compress.ranking import Bm25Ranker, NoRanker, best_matches, relevance
from asymspec_agents.compress.segments import segment
from asymspec_agents.compress.terms import names_and_numbers, query_terms, term_lists, terms
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


def test_a_link_found_by_a_link_is_followed() -> None:
    teacher = "Anna Weber\nAnna Weber taught drawing. Her only pupil in Neuruppin was Otto Brandt."
    architect = "Karl Schinkel\nKarl Schinkel was an architect. He learned to draw from Anna Weber."
    text = "\n\n".join([*FILLER[:6], architect, FILLER[6], LIGHTHOUSE, teacher, *FILLER[7:]])
    scores, names = linked_scores(Bm25Ranker(), linked(text), LIGHTHOUSE_QUERY, query_terms(LIGHTHOUSE_QUERY))
    ranked = sorted(range(len(scores)), key=lambda index: -scores[index])
    headings = [passage.headings[0] for passage in linked(text)]
    assert ranked[0] == headings.index("Lighthouse")
    assert {headings[index] for index in ranked[:3]} == {"Lighthouse", "Karl Schinkel", "Anna Weber"}
    assert max(scores[headings.index(name)] for name in ("Alba", "Gera", "Jena")) == 0
    assert {"schinkel", "karl", "arkona"} <= set(names)
    assert "lighthouse" not in names


LIGHTHOUSE_QUERY = "Where did the teacher of the designer of the lighthouse work?"


def linked(text: str) -> list[LinkedPassage]:
    found = []
    for passage in segment(text):
        spans = passage.headings + passage.sentences
        whole = text[spans[0].start : spans[-1].end]
        headings = tuple(text[span.start : span.end] for span in passage.headings)
        found.append(LinkedPassage(headings, whole, terms(whole)))
    return found


def test_passages_without_a_match_have_no_links() -> None:
    scores, names = linked_scores(Bm25Ranker(), linked("\n\n".join(FILLER)), "zyzzyva", ["zyzzyva"])
    assert scores == [0.0] * len(FILLER)
    assert names == []


def test_of_very_many_passages_the_best_matches_are_looked_at() -> None:
    filler = [
        f"Place {number}\nThe lamp of place {number} is old. Nobody knows more." for number in range(2_000)
    ]
    text = "\n\n".join([*filler[:1_500], LIGHTHOUSE, *filler[1_500:]])
    assert "Karl Schinkel" in extract(text, "Who designed the lighthouse with the old lamp?", 300)


def test_best_matches_prefer_rare_terms_and_keep_the_texts_order() -> None:
    texts = ["common"] * 50 + ["common rare"] + ["common"] * 50 + ["rare rare", "nothing"]
    assert best_matches(texts, ["common", "rare"], 2) == [50, 101]
    assert best_matches(texts, ["common", "rare"], 1_000) == list(range(103))
    assert best_matches(texts, ["rare"], 5) == [49, 50, 51, 100, 101]  # and what stands around them
    assert best_matches(texts, ["missing"], 5) == []
    assert best_matches(texts, ["absent"], 10) == []
    assert best_matches([], ["absent"], 10) == []


def test_western_marks_end_a_sentence_before_white_space_only() -> None:
    text = "It costs 3.50 at www.example.org! Is e.g. this one? 是吗？对。 (He said so.) Yes"
    (passage,) = segment(text)
    assert [text[span.start : span.end] for span in passage.sentences] == [
        *("It costs 3.50 at www.example.org!", "Is e.g. this one?", "是吗？", "对。", "(He said so.)", "Yes")
    ]


@pytest.mark.parametrize("share", [0.02, 0.15, 0.5])
@pytest.mark.parametrize("between", ["\n", " ", "\n\n", "\n\nReport\n"])
@pytest.mark.parametrize("place", [0, 150, 299])
@pytest.mark.parametrize(
    "filler",
    [
        "Nothing of note happened in week {} of the trial.",
        "Bus {} to Milan leaves on time, as the office of the railway in Milan and Turin said.",
        "2026-03-01 12:00:{} INFO Worker done; Berlin office, Rail Europe queue.",
    ],
)
def test_the_one_sentence_that_matches_is_kept(filler: str, place: int, between: str, share: float) -> None:
    lines = [filler.format(number) for number in range(300)]
    lines[place] = "The train to Rome leaves at 7:15 from platform 7."
    text = between.join(lines)
    target_tokens = int(share * COUNTER.count(text))
    query = 'When does the train to Rome leave?\nsearch {"query": "timetable"}'
    assert "Rome leaves at 7:15" in extract(text, query, target_tokens)


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_of_several_sentences_that_match_all_come_before_what_stands_around_them(between: str) -> None:
    lines = [f"Nothing of note happened in week {week} of the trial." for week in range(300)]
    for place in (40, 41, 120, 280):
        lines[place] = f"The train to Rome leaves at {place}:15."
    shortened = extract(between.join(lines), "When does the train to Rome leave?", 150)
    assert all(f"leaves at {place}:15" in shortened for place in (40, 41, 120, 280))


def test_names_are_capitalised_within_a_sentence_or_beside_another_name() -> None:
    text = (
        "Nothing came of it. Karl Schinkel met Anna there.\nHis teacher, David Gilly, died in 1808. So it is."
    )
    assert names_and_numbers(text).split() == ["Karl", "Schinkel", "Anna", "David", "Gilly", "1808"]


def test_term_lists_are_the_terms_of_each_text() -> None:
    texts = ["Running getUserToken", "", "Running 灯塔站"]
    assert term_lists(texts) == [terms(text) for text in texts]


def test_what_stands_around_the_only_match_fills_the_room() -> None:
    lines = [f"Nothing of note happened in week {week} of the trial." for week in range(3_000)]
    lines[2_000] = "The train to Rome leaves at 7:15 from platform 7."
    for text in ("\n".join(lines), "\n\n".join(lines)):
        rendition = Extractive().compress(
            text, query="Which train goes to Rome?", target_tokens=600, counter=COUNTER
        )
        assert lines[2_000] in rendition.text
        assert lines[1_999] in rendition.text
        assert lines[2_001] in rendition.text
        assert 480 <= COUNTER.count(rendition.text) <= 600


def test_what_did_not_fit_a_first_filling_is_tried_again() -> None:
    long = "The train to Rome leaves from " + "a platform with a very long name and " * 12 + "a number."
    text = "\n\n".join([long, *(f"Rome has a train number {n}." for n in range(40)), *(["It rained."] * 400)])
    for target in range(150, 400, 10):
        rendition = Extractive().compress(text, query="train Rome", target_tokens=target, counter=COUNTER)
        assert COUNTER.count(rendition.text) >= 0.85 * target
