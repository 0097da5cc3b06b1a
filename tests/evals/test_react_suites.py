"""The agents' suites: whose questions they ask, what their agents can do, how answers are scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.cells import Cell
from evals.records import Output, Record
from evals.suite import Suite
from evals.suites import suite_named
from evals.suites.react import GaiaReact, SimpleQAReact, WebSuite
from evals.suites.react_multihop import NUM_POOLED, ReactMultihop
from tests.evals.episodes import BackendAsker, call, scripted, views
from tests.evals.made_releases import CITIES, NOISE, mill, write_csv
from tests.evals.made_releases import write_cassette as cassette

SHEET = "month,sacks\n" + "\n".join(f"month {month},{month * 7}" for month in range(1, 1_200))


@pytest.fixture
def multihop(tmp_path: Path) -> Path:
    folder = tmp_path / "multihop"
    folder.mkdir()
    lines = "\n".join(json.dumps(mill(number)) for number in range(len(CITIES)))
    (folder / "hotpotqa.jsonl").write_text(lines + "\n")
    return folder


def test_an_agent_finds_the_passages_of_its_record(multihop: Path) -> None:
    suite = ReactMultihop()
    samples = suite.load(multihop)
    assert [sample.id for sample in samples[:2]] == ["hotpotqa/q0", "hotpotqa/q1"]
    assert {sample.suite for sample in samples} == {"react_multihop"}
    assert all(NOISE not in text for sample in samples for text in sample.messages[0].texts())
    for number in (0, 44):
        asker, backend = scripted(
            call("search", query=f"Mill {number}"), call("final_answer", answer=f"In {CITIES[number]}!")
        )
        output = suite.answer(samples[number], asker)
        full, compressed = views(backend.requests[1])
        assert f"Mill {number} stands in {CITIES[number]}" in full
        assert full.count(NOISE.strip()) >= 2
        assert compressed.count(NOISE.strip()) == 0
        assert backend.requests[0].max_tokens == 150
        score = suite.score(samples[number], output)
        assert score.values == {"f1": pytest.approx(2 / 3), "exact_match": 0.0}


def test_a_pool_is_of_twenty_records(multihop: Path) -> None:
    suite = ReactMultihop()
    samples = suite.load(multihop)
    pools = {sample.details["pool"]: suite._pools[sample.details["pool"]] for sample in samples}
    assert [len(pool.passages) for pool in pools.values()] == [2 * NUM_POOLED] * 3
    last = suite._pools[samples[44].details["pool"]]
    assert f"Oak {44}\nAn oak." in last.passages
    assert f"Oak {0}\nAn oak." in last.passages  # filled from the first records
    assert ReactMultihop().load(multihop) == samples


@pytest.mark.parametrize(
    ("answer", "f1", "exact"),
    [("Town03", 1, 1), ("the town03.", 1, 1), ("Town04", 0.0, 0.0), ("", 0.0, 0.0), ("A", 0.0, 0.0)],
)  # fmt: skip
def test_f1_and_exact_match(multihop: Path, answer: str, f1: float, exact: float) -> None:
    suite = ReactMultihop()
    sample = suite.load(multihop)[3]
    score = suite.score(sample, Output(answer=answer))
    assert score.values == {"f1": f1, "exact_match": exact}


def test_the_figure_has_a_part_for_each_dataset(multihop: Path) -> None:
    suite = ReactMultihop()
    sample = suite.load(multihop)[3]
    records = [
        Record(
            suite=suite.name,
            sample=str(number),
            cell="ceiling",
            groups=dict(sample.groups),
            output=None if number else Output(answer="Town03"),
            score=None if number else suite.score(sample, Output(answer="Town03")),
        )
        for number in range(2)
    ]
    figure = suite.figure(records)
    assert (figure.value, figure.parts) == (50.0, {"hotpotqa": 50.0})


def test_samples_of_elsewhere_are_refused(multihop: Path) -> None:
    sample = ReactMultihop().load(multihop)[0]
    with pytest.raises(ConfigurationError, match="none of those that this suite loaded"):
        ReactMultihop().answer(sample, scripted()[0])


def test_arms_that_read_the_full_view_only_get_no_policy(multihop: Path) -> None:
    suite = ReactMultihop(agent="code")
    suite.prepare()
    asker, backend = scripted("<code>\nfinal_answer('Town01' in search(query='Mill 1'))\n</code>")
    asker = BackendAsker(backend, Cell.parse("ceiling"))
    assert suite.answer(suite.load(multihop)[1], asker).answer == "True"
    assert asker.policies == [None]


@pytest.mark.parametrize("name", ["react_multihop", "gaia_react", "simpleqa_react"])
def test_limits_are_options_of_the_suite(name: str) -> None:
    suite = suite_named(f"{name}:max_steps=2,agent=code")
    assert suite.name == f"{name}:agent=code,max_steps=2"
    assert suite.title == f"{suite_named(name).title}; agent=code,max_steps=2"
    with pytest.raises(ConfigurationError, match="max_steps=0"):
        suite_named(f"{name}:max_steps=0")
    with pytest.raises(ConfigurationError, match="agent='chess'"):
        suite_named(f"{name}:agent=chess")


def test_the_grade_is_read_as_simpleqa_reads_it() -> None:
    assert SimpleQAReact(parse="paper").inner.parse == "paper"
    with pytest.raises(ConfigurationError, match="parse='loose'"):
        SimpleQAReact(parse="loose")


def test_a_suite_without_options_refuses_any() -> None:
    suite = ReactMultihop()
    assert suite.with_options({}) is suite
    with pytest.raises(
        ConfigurationError, match="option 'cassette' is unknown: suite react_multihop has none"
    ):
        suite.with_options({"cassette": "x"})


@pytest.mark.parametrize("kind", [GaiaReact, SimpleQAReact])
def test_without_a_cassette_nothing_begins(kind: type[WebSuite], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs a cassette of the web"):
        kind().prepare()
    with pytest.raises(ConfigurationError, match="needs a cassette of the web"):
        kind().with_options({"online": "true"}).prepare()
    with pytest.raises(ConfigurationError, match="option 'max_step' is unknown"):
        kind().with_options({"max_step": "4"}).prepare()
    kind().with_options({"cassette": cassette(tmp_path)}).prepare()


@pytest.fixture
def gaia(tmp_path: Path) -> Path:
    """Made-up rows in GAIA's format: nothing of the set itself."""
    folder = tmp_path / "2023" / "validation"
    folder.mkdir(parents=True)
    rows = [
        {"task_id": "a", "Question": "How many sacks in month 3?", "Level": 1, "Final answer": "21",
         "file_name": "a.csv"},
        {"task_id": "b", "Question": "Which mill is the oldest?", "Level": 2, "Final answer": "Corrin Mill",
         "file_name": ""},
        {"task_id": "c", "Question": "What is said?", "Level": 3, "Final answer": "no", "file_name": "c.mp3"},
    ]  # fmt: skip
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "a.csv").write_text(SHEET)
    (folder / "c.mp3").write_bytes(b"ID3\x03" + bytes(100))
    return tmp_path


def test_gaia_reads_attachments_and_the_web(gaia: Path, tmp_path: Path) -> None:
    page = f"The Corrin Mill is the oldest. {NOISE * 4}"
    tape = cassette(tmp_path, ("web_search", {"query": "oldest mill"}, page))
    suite = GaiaReact().with_options({"cassette": tape})
    samples = suite.load(gaia)
    assert [sample.groups for sample in samples] == [
        {"level": "1", "subset": "file", "attachment": "csv"},
        {"level": "2", "subset": "web", "attachment": "none"},
        {"level": "3", "subset": "file", "attachment": "audio"},
    ]

    asker, backend = scripted(call("final_answer", answer=21))
    asker.cell = Cell.parse("asymspec on truncate@200")
    output = suite.answer(samples[0], asker)
    full, compressed = views(backend.requests[0])
    assert "month 1199,8393" in full
    assert len(compressed) < len(full) - 0.9 * len(SHEET)
    assert "How many sacks in month 3" in compressed
    assert suite.score(samples[0], output).values["accuracy"] == 1.0

    asker, backend = scripted(
        call("web_search", query="oldest  mill"), call("final_answer", answer="corrin mill")
    )
    output = suite.answer(samples[1], asker)
    assert suite.score(samples[1], output).values["accuracy"] == 1.0
    assert output.trajectory[-1]["tool_answers"]["replayed"] == 1
    full, compressed = views(backend.requests[1])
    assert page.strip() in full
    assert NOISE * 4 not in compressed


def test_gaia_says_that_audio_cannot_be_read(gaia: Path, tmp_path: Path) -> None:
    suite = GaiaReact().with_options({"cassette": cassette(tmp_path)})
    sample = suite.load(gaia)[2]
    asker, backend = scripted(call("final_answer", answer=""))
    output = suite.answer(sample, asker)
    full, _ = views(backend.requests[0])
    assert "MP3 audio" in full
    assert "not supported" in full
    assert suite.score(sample, output).values["accuracy"] == 0.0
    assert output.trajectory[0]["is_complete"] is False


def test_gaia_figures_keep_levels_and_subsets_apart(gaia: Path) -> None:
    suite = GaiaReact()
    records = [
        Record(
            suite=suite.name,
            sample=sample.id,
            cell="ceiling",
            groups=dict(sample.groups),
            output=Output(answer="21"),
            score=suite.score(sample, Output(answer="21")),
        )
        for sample in suite.load(gaia)
    ]
    parts = suite.figure(records).parts
    assert (parts["level 1"], parts["level 2"], parts["subset file"], parts["subset web"]) == (1, 0, 0.5, 0)


class Grader:
    name = "grader"

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        return "A" if "barley soup" in prompt else "B"


def test_simpleqa_is_graded_by_its_own_prompt(tmp_path: Path) -> None:
    file = write_csv(
        tmp_path / "simple_qa_test_set.csv",
        ("metadata", "problem", "answer"),
        [("{'topic': 'Food'}", "What is eaten at Corrin?", "a soup")],
    )
    suite = SimpleQAReact().with_options({"cassette": cassette(tmp_path)})
    (sample,) = suite.load(file)
    assert sample.suite == "simpleqa_react"
    asker, _ = scripted(call("final_answer", answer="barley soup"))
    output = suite.answer(sample, asker)
    assert suite.value(_scored(suite, sample.id, output, sample)) == 1.0
    assert suite.value(_scored(suite, sample.id, Output(answer=""), sample)) == 0.0


def _scored(suite: Suite, name: str, output: Output, sample: Any) -> Record:
    score = suite.score(sample, output, Grader())
    return Record(suite=suite.name, sample=name, cell="ceiling", output=output, score=score)
