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
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ..agents.policy import episode_policy
from ..agents.settings import WEB_OPTIONS, AgentSettings
from ..records import Output, Record, Score
from ..sample import Sample
from ..suite import Asker, Judge, Result, Suite
from .gaia import Gaia
from .simpleqa import SimpleQA

if TYPE_CHECKING:
    from ..agents.web_options import WebOptions

__all__ = ["GaiaReact", "SimpleQAReact", "WebSuite"]

FIRST_SIGHT_TOKENS = 500  # of a page or a list of results
_AUDIO = frozenset({"aac", "aif", "aiff", "flac", "m4a", "mp3", "oga", "ogg", "opus", "wav", "wma"})
_IMAGES = frozenset({"bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp"})


class WebSuite(Suite):
    """Questions of another suite, answered by an agent with `web_search` and `visit_page`.

    `agent` is `tool_calling` or `code`; limits as in AgentSettings, as texts. Options, which say where the
    web comes from: `cassette=PATH` (needed), `online=true` (may ask the web what the cassette does not hold),
    `mode` (`replay`, `record-missing`, `record`; by default the second where it may go online, else the
    first), `search` (`ddgs`, or the URL of a JSON search with {query} in it), `search_header` and
    `search_key_file` (the header and the file of its key).
    """

    has_tools = True

    option_names = WEB_OPTIONS
    instructions: str
    """What the agent is told besides smolagents' own prompt: the form of the answer."""

    def __init__(
        self,
        agent: str = "tool_calling",
        max_steps: str = "12",
        max_step_tokens: str = "1024",
        max_seconds: str = "1800",
        forces_calls: str = "false",
    ) -> None:
        self._settings = AgentSettings.of_texts(
            agent=agent,
            max_steps=max_steps,
            max_step_tokens=max_step_tokens,
            max_seconds=max_seconds,
            forces_calls=forces_calls,
            instructions=self.instructions,
        )
        self._options: dict[str, str] = {}

    @property
    @abstractmethod
    def inner(self) -> Suite:
        """The suite whose questions and scoring these are."""

    def with_options(self, options: Mapping[str, str]) -> WebSuite:
        """This suite with the web's options; they are checked by `prepare`."""
        other = copy.copy(self)
        other.__dict__.pop("web", None)
        other._options = dict(options)
        return other

    @cached_property
    def web(self) -> WebOptions:
        """The cassette and what may be asked live; one for all samples. Raises ConfigurationError."""
        from ..agents.web_options import WebOptions

        return WebOptions.of(self.name, self._options)

    def prepare(self) -> None:
        """Raises ConfigurationError where there is no cassette and none may be recorded.

        Raises MissingDependencyError where smolagents is not installed.
        """
        import smolagents_asymspec  # noqa: F401 - says what is missing

        self.web  # noqa: B018 - opened and checked now
        self.inner.prepare()

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        return tuple(
            replace(sample, suite=self.name, groups={**sample.groups, **self.groups_of(sample)})
            for sample in self.inner.load(path)
        )

    def groups_of(self, sample: Sample) -> Mapping[str, str]:
        """Further groups that results are given by; none by default."""
        return {}

    def files_of(self, sample: Sample, asker: Asker) -> tuple[list[dict[str, Any]], tuple[Any, ...]]:
        """The sample's files as parts of a message, and how each was read; none by default."""
        return [], ()

    def answer(self, sample: Sample, asker: Asker) -> Output:
        from ..agents.episode import run_episode
        from ..agents.tools import RecordedWeb, VisitPageTool, WebSearchTool

        web = RecordedWeb(self.web.cassette, self.web.live)
        files, read = self.files_of(sample, asker)
        output = run_episode(
            sample.query,
            [WebSearchTool(web), VisitPageTool(web)],
            asker,
            self._settings,
            policy=episode_policy(asker.cell.view, first_sight_tokens=FIRST_SIGHT_TOKENS),
            files=files,
            counts=web.counts,
        )
        return output.model_copy(update={"trajectory": (*read, *output.trajectory)}) if read else output

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        return self.inner.score(sample, output, judge)

    def figure(self, records: Sequence[Record]) -> Result:
        return self.inner.figure(records)


class GaiaReact(WebSuite):
    """GAIA by an agent: attachments stand below the task as text, which the view shortens for the verifier.

    The default view is the paper's setting: of any text the verifier reads 2,000 tokens at most, the drafter
    everything. Questions with a file and those without are groups of their own (`subset`), as are the kinds
    of file (`attachment`); what cannot be read, such as audio, stands as a note. Where the models that read
    the full view see images, they get them. A cassette of GAIA holds what was asked about its questions, so
    its terms go for the cassette too: keep it private.
    """

    name = "gaia_react"
    title = "GAIA (validation) by an agent with web tools"
    metric = Gaia.metric
    is_restricted = True
    default_views = ("truncate@2000",)
    source = Gaia.source
    instructions = (
        "Give final_answer the answer alone: a number without units or thousands separators unless they are "
        "asked for, as few words as possible, or a list with commas. A file of the task, if there is one, "
        "stands below it as text."
    )

    @cached_property
    def inner(self) -> Gaia:
        """Questions, files and scoring."""
        return Gaia()

    def groups_of(self, sample: Sample) -> Mapping[str, str]:
        return {"attachment": _kind(str(sample.details.get("file_name") or ""))}

    def files_of(self, sample: Sample, asker: Asker) -> tuple[list[dict[str, Any]], tuple[Any, ...]]:
        prompt = self.inner.prompt(sample, sees_images=asker.sees_images)
        parts = []
        for long in prompt.long_parts:
            content = prompt.messages[long.message].content
            if isinstance(content, tuple) and long.part is not None:
                parts.append(content[long.part].wire())
        return parts, prompt.trajectory


class SimpleQAReact(WebSuite):
    """SimpleQA by an agent that searches the web; the judge is SimpleQA's own grader.

    `parse` as in `simpleqa`: how the grader's letter is read.
    """

    name = "simpleqa_react"
    title = "SimpleQA by an agent with web tools"
    metric = SimpleQA.metric
    needs_judge = True
    source = SimpleQA.source
    instructions = "Give final_answer the answer alone, in a few words; where you don't know it, say so."

    def __init__(
        self,
        agent: str = "tool_calling",
        max_steps: str = "12",
        max_step_tokens: str = "1024",
        max_seconds: str = "1800",
        forces_calls: str = "false",
        parse: str = "strict",
    ) -> None:
        super().__init__(agent, max_steps, max_step_tokens, max_seconds, forces_calls)
        self._inner = SimpleQA(parse)

    @property
    def inner(self) -> SimpleQA:
        """Questions and grading."""
        return self._inner


def _kind(file_name: str) -> str:
    ending = PurePath(file_name).suffix.lower().lstrip(".")
    if not file_name:
        return "none"
    return "audio" if ending in _AUDIO else "image" if ending in _IMAGES else ending or "other"
