"""One episode: an agent works on a task with tools, bounded in steps, tokens and time.

A CodeAgent runs code that the model wrote, in this process, in smolagents' own interpreter with its default
list of imports. That interpreter is restricted, it is no sandbox: whoever can steer the model (a web page it
reads, say) may try to get out of it. Tool calls are the default for that reason; run code agents with web
tools in a container only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smolagents import CodeAgent, LogLevel, MultiStepAgent, Tool, ToolCallingAgent

from asymspec_agents.views import ViewPolicy
from smolagents_asymspec import instrument

from ..records import Output
from ..suite import Asker
from .model import EpisodeModel, OutOfTimeError
from .settings import AgentSettings
from .trajectory import answer_text, steps_of

__all__ = ["run_episode"]

_STOPPED = "The agent has to stop here. Answer the task with what it found."
_LAST_WORDS = "Task: {{task}}\nWrite the answer alone, in a few words, without an explanation."


def run_episode(
    task: str,
    tools: Sequence[Tool],
    asker: Asker,
    settings: AgentSettings,
    *,
    policy: ViewPolicy | None = None,
    files: Sequence[Mapping[str, Any]] = (),
    counts: Callable[[], Mapping[str, int]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Output:
    """What the agent answered, with all its calls and steps; an empty answer where it found none.

    `policy` is what the verifier's views are made by, None for the asker's own. `files` are parts of a
    message; they follow the task. The trajectory ends with how the episode ended (`answered`, `max_steps`,
    `time`, `no_answer`) and with the `counts` that its tools give. Raises what the arm raises: a failed call
    is the arm's failure.
    """
    forced = {"tool_choice": "required", "parallel_tool_calls": False} if settings.forces_calls else {}
    model = EpisodeModel(
        asker.backend(),
        asker.router(policy),
        max_tokens=settings.max_step_tokens,
        files=files,
        deadline_s=clock() + settings.max_seconds,
        clock=clock,
        **forced,
    )
    agent = instrument(_agent(tools, model, settings))
    answer: Any = None
    try:
        answer = agent.run(task, max_steps=settings.max_steps)
    except Exception:
        if model.failure is None:
            raise
    if model.failure is not None and not isinstance(model.failure, OutOfTimeError):
        raise model.failure
    text = "" if model.failure is not None else answer_text(answer)
    steps = steps_of(agent.memory.steps)
    end: dict[str, Any] = {
        "end": _end(steps, text, model.failure is not None, settings.max_steps),
        "agent": settings.kind,
        "num_calls": model.num_calls,
    }
    if counts is not None:
        end["tool_answers"] = dict(counts())
    return asker.output(text, trajectory=(*steps, end))


def _end(steps: Sequence[Mapping[str, Any]], text: str, is_out_of_time: bool, max_steps: int) -> str:
    if is_out_of_time:
        return "time"
    if any(step["step"] > max_steps for step in steps):
        return "max_steps"
    return "answered" if text else "no_answer"


def _agent(tools: Sequence[Tool], model: EpisodeModel, settings: AgentSettings) -> MultiStepAgent:
    common: dict[str, Any] = {
        "tools": list(tools),
        "model": model,
        "max_steps": settings.max_steps,
        "verbosity_level": LogLevel.OFF,
        "instructions": settings.instructions,
    }
    agent: MultiStepAgent = (
        CodeAgent(executor_kwargs={"timeout_seconds": settings.max_code_seconds}, **common)
        if settings.kind == "code"
        else ToolCallingAgent(max_tool_threads=1, **common)
    )
    agent.prompt_templates["final_answer"] = {"pre_messages": _STOPPED, "post_messages": _LAST_WORDS}
    if settings.system_prompt is not None and settings.kind == "tool_calling":
        agent.prompt_templates["system_prompt"] = settings.system_prompt
    return agent
