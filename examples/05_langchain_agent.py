"""A LangChain agent whose model reads the compressed view and whose drafter reads everything.

    asymspec serve                                                # in one terminal
    python examples/05_langchain_agent.py http://127.0.0.1:8000   # in another

Without an address, a scripted backend answers, so that no model is needed.
"""

from __future__ import annotations

import sys

from langchain.agents import create_agent
from langchain_core.tools import tool

from asymspec_agents import ContextRouter, HTTPBackend, ScriptedBackend
from asymspec_agents.backends.scripted import scripted_response
from asymspec_agents.messages import FunctionCall, ToolCall
from langchain_asymspec import AsymSpecContextMiddleware, ChatAsymSpec

CALL = FunctionCall(name="read_log", arguments='{"service": "mail"}')
SCRIPT = (
    scripted_response(tool_calls=[ToolCall(id="1", type="function", function=CALL)]),
    "disk /dev/sdb1 is full",
)


@tool
def read_log(service: str) -> str:
    """Reads a service's log of today. Give the service by its short name, without a version."""
    lines = [f"12:{n // 60:02}:{n % 60:02} {service}: request {n} served" for n in range(1_000)]
    lines[321] = f"12:05:21 {service}: ERROR disk /dev/sdb1 is full"
    return "\n".join(lines)


def main(url: str | None) -> None:
    backend = HTTPBackend(url) if url else ScriptedBackend(SCRIPT)
    router = ContextRouter()
    agent = create_agent(
        ChatAsymSpec(backend=backend, max_tokens=150),
        [read_log],
        middleware=[AsymSpecContextMiddleware(router)],  # last of them, where there are several
    )
    state = agent.invoke({"messages": [{"role": "user", "content": "Which error does the mail log show?"}]})
    for message in state["messages"]:
        print(f"{message.type}: {len(message.text):,} characters in the agent's state")
    print("answer:", state["messages"][-1].text)
    if isinstance(backend, ScriptedBackend):
        asked = backend.requests[-1]
        shown = asked.asymspec.compressed_messages(asked.messages)[-1].texts()[0]
        print(f"the verifier read {len(shown):,} of the log's, 'is full' in them: {'is full' in shown}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
