"""A smolagents agent over HTTP: both views of every call travel to a server.

    asymspec serve                                     # in one terminal; fetches two models the first time
    python examples/03_http.py http://127.0.0.1:8000   # in another

Without an address, a server with a scripted backend runs in this process, so that no model is needed.
"""

from __future__ import annotations

import sys
import threading

import uvicorn
from smolagents import ToolCallingAgent, tool

from asymspec_agents import HTTPBackend, ScriptedBackend
from asymspec_agents.server.app import create_app
from asymspec_agents.server.running import listen
from smolagents_asymspec import AsymSpecModel

SCRIPT = (
    '{"name": "read_log", "arguments": {"service": "mail"}}',
    '{"name": "final_answer", "arguments": {"answer": "disk /dev/sdb1 is full"}}',
)


@tool
def read_log(service: str) -> str:
    """Reads a service's log of today. Give the service by its short name, in lower case, without a version.

    Args:
        service: The service's short name, such as "mail" or "web".
    """
    lines = [f"12:{n // 60:02}:{n % 60:02} {service}: request {n} served" for n in range(1_000)]
    lines[321] = f"12:05:21 {service}: ERROR disk /dev/sdb1 is full"
    return "\n".join(lines)


def run_agent(url: str) -> None:
    backend = HTTPBackend(url)
    print("verifier:", backend.capabilities.verifier, "drafter:", backend.capabilities.drafter)
    agent = ToolCallingAgent(
        [read_log], AsymSpecModel(backend, max_tokens=150), max_steps=3, verbosity_level=0
    )
    print("answer:", agent.run("Which error does the mail log show?"))
    backend.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run_agent(sys.argv[1]))
    app, bound = create_app({"scripted": ScriptedBackend(SCRIPT)}), listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    run_agent(f"http://127.0.0.1:{bound.getsockname()[1]}")
    server.should_exit = True
    thread.join()
