"""smolagents' two kinds of agent over AsymSpecModel: calls as JSON, and calls as code.

    python examples/04_smolagents_agents.py                                          # scripted answers
    python examples/04_smolagents_agents.py qwen2.5-coder-1.5b qwen2.5-coder-0.5b    # verifier, drafter

The code that a CodeAgent's model writes is run in this process; smolagents' documentation names sandboxes.
"""

from __future__ import annotations

import sys

from smolagents import CodeAgent, MultiStepAgent, ToolCallingAgent, tool

from asymspec_agents import Backend, LocalBackend, ScriptedBackend
from smolagents_asymspec import AsymSpecModel, instrument

CALLS = (
    '{"name": "read_log", "arguments": {"service": "mail"}}',
    '{"name": "final_answer", "arguments": {"answer": "disk /dev/sdb1 is full"}}',
)
CODE = (
    'Thought: I look for errors.\n<code>\nprint(read_log("mail"))\n</code>',
    'Thought: There it is.\n<code>\nfinal_answer("disk /dev/sdb1 is full")\n</code>',
)


@tool
def read_log(service: str) -> str:
    """Reads a service's log of today. Give the service by its short name, in lower case, without a version.

    Args:
        service: The service's short name, such as "mail" or "web".
    """
    lines = [f"12:{n // 60:02}:{n % 60:02} {service}: request {n} served" for n in range(300)]
    lines[123] = f"12:02:03 {service}: ERROR disk /dev/sdb1 is full"
    return "\n".join(lines)


def run(kind: type[MultiStepAgent], backend: Backend) -> None:
    model = AsymSpecModel(backend, max_tokens=100)
    agent = instrument(kind([read_log], model, max_steps=3, verbosity_level=0))
    answer = agent.run("Which error does the mail log show?")
    print(f"{kind.__name__}, {len(agent.memory.steps) - 1} steps: {answer}")


if __name__ == "__main__":
    names = sys.argv[1:3]
    real = LocalBackend.load(*names) if names else None
    run(ToolCallingAgent, real or ScriptedBackend(CALLS))
    run(CodeAgent, real or ScriptedBackend(CODE))
