"""GAIA and SimpleQA by an agent with web tools, whose answers come from a cassette.

Every arm of a run reads the same web: requests are answered from the cassette, and what it does not hold is
asked live only where the run may go online, and recorded then. Loading and scoring are those of the suites
`gaia` and `simpleqa`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from asymspec_agents.errors import ConfigurationError

from ..agents.policy import episode_policy
from ..records import Output, Record, Score
from ..sample import Sample
from ..suite import Asker, Judge, Result, Suite

if TYPE_CHECKING:
    from ..agents.episode import AgentSettings
    from ..agents.web_options import WebOptions

__all__ = ["GaiaReact", "SimpleQAReact", "WebSuite"]

FIRST_SIGHT_TOKENS = 500  # of a page or a list of results
_AUDIO = frozenset({".aac", ".aif", ".aiff", ".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav", ".wma"})
_IMAGES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})


class WebSuite(Suite):
    """Questions of another suite, answered by an agent with `web_search` and `visit_page`.

    Options: `cassette=PATH` (needed), `online=true` (may ask the web what the cassette does not hold),
    `mode` (`replay`, `record-missing`, `record`; by default the second where it may go online, else the
    first), `search` (`ddgs`, or the URL of a JSON search with {query} in it), `search_header` and
    `search_key_file` (the header and the file of its key), and those of the agent: `agent` (`tool_calling`,
    `code`), `max_steps`, `max_step_tokens`, `max_seconds`.
    """

    instructions: str
    """What the agent is told besides smolagents' own prompt: the form of the answer."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}

    @abstractmethod
    def make_inner(self) -> Suite:
        """The suite whose questions and scoring these are."""

    @cached_property
    def inner(self) -> Suite:
        """The suite whose questions and scoring these are."""
        return self.make_inner()

    def with_options(self, options: Mapping[str, str]) -> WebSuite:
        from ..agents.options import AGENT_OPTIONS, check_known
        from ..agents.web_options import WEB_OPTIONS

        check_known(self.name, options, (*AGENT_OPTIONS, *WEB_OPTIONS))
        other = copy.copy(self)
        other.__dict__.pop("web", None)
        other._options = dict(options)
        other._settings()
        return other

    @cached_property
    def web(self) -> WebOptions:
        """The cassette and what may be asked live; one for all samples. Raises ConfigurationError."""
        from ..agents.web_options import WebOptions

        return WebOptions.of(self.name, self._options)

    def prepare(self) -> None:
        """Raises ConfigurationError where there is no cassette, or none may be recorded."""
        self._settings()
        self.web  # noqa: B018 - made and checked now
        self.inner.prepare()

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        return tuple(
            replace(sample, suite=self.name, groups={**sample.groups, **self.groups_of(sample)})
            for sample in self.inner.load(path)
        )

    def groups_of(self, sample: Sample) -> Mapping[str, str]:
        """Further groups that results are given by; none by default."""
        return {}

    def answer(self, sample: Sample, asker: Asker) -> Output:
        from ..agents.episode import run_episode
        from ..agents.tools import RecordedWeb, VisitPageTool, WebSearchTool

        web = RecordedWeb(self.web.cassette, self.web.live)
        return run_episode(
            _task(sample),
            [WebSearchTool(web), VisitPageTool(web)],
            asker,
            self._settings(),
            policy=episode_policy(asker.cell.view, first_sight_tokens=FIRST_SIGHT_TOKENS),
            files=sample.files,
            counts=web.counts,
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        return self.inner.score(sample, output, judge)

    def figure(self, records: Sequence[Record]) -> Result:
        return self.inner.figure(records)

    def _settings(self) -> AgentSettings:
        from ..agents.episode import AgentSettings
        from ..agents.options import with_agent_options

        usual = AgentSettings(max_steps=12, max_step_tokens=1_024, instructions=self.instructions)
        return with_agent_options(usual, self._options)


class GaiaReact(WebSuite):
    """GAIA by an agent: attachments are read as text, which the view shortens for the verifier.

    The default view is the paper's setting: of any text the verifier reads 2,000 tokens at most, the drafter
    everything. Questions with a file and those without are groups of their own (`subset`), as are the kinds
    of file (`attachment`); audio stands as a note that it cannot be read.
    """

    name = "gaia_react"
    title = "GAIA by an agent with web tools and attachments"
    metric = "accuracy"
    default_views = ("truncate@2000",)
    source = "as the suite gaia: gated, its terms forbid resharing"
    instructions = (
        "Give final_answer the answer alone: a number without units or thousands separators unless they are asked "
        "for, as few words as possible, or a list with commas. A file of the task, if there is one, stands below "
        "it as text."
    )

    def make_inner(self) -> Suite:
        from .gaia import Gaia

        return Gaia()

    def groups_of(self, sample: Sample) -> Mapping[str, str]:
        return {
            "subset": "file" if sample.files else "web",
            "attachment": _attachment(sample.files),
        }


class SimpleQAReact(WebSuite):
    """SimpleQA by an agent that searches the web; the judge is SimpleQA's own grader."""

    name = "simpleqa_react"
    title = "SimpleQA by an agent with web tools"
    metric = "is_correct"
    needs_judge = True
    default_views = ("extract@0.3",)
    source = "as the suite simpleqa"
    instructions = "Give final_answer the answer alone, in a few words. Say that you don't know where you don't."

    def make_inner(self) -> Suite:
        from .simpleqa import SimpleQA

        return SimpleQA()


def _task(sample: Sample) -> str:
    """The question as text: the agent's framework writes the messages."""
    if sample.query.strip():
        return sample.query
    texts = [text for message in sample.messages if message.role == "user" for text in message.texts()]
    if not texts:
        raise ConfigurationError(f"sample {sample.id!r} has no question")
    return texts[-1]


def _attachment(files: Sequence[Path]) -> str:
    if not files:
        return "none"
    ending = files[0].suffix.lower()
    return "audio" if ending in _AUDIO else "image" if ending in _IMAGES else ending.lstrip(".") or "other"
