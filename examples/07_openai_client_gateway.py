"""Any OpenAI client through the gateway: its base_url is all that changes.

    asymspec serve --port 8000                                      # in one terminal
    asymspec gateway --upstream http://127.0.0.1:8000 --port 8080   # in another
    python examples/07_openai_client_gateway.py http://127.0.0.1:8080

Without an address, a gateway over a server with scripted answers runs in this process.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

import uvicorn
from openai import OpenAI

from asymspec_agents import ScriptedBackend
from asymspec_agents.gateway.app import create_gateway
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions
from asymspec_agents.server.app import create_app
from asymspec_agents.server.running import listen

LOG = "\n".join(f"12:{n // 60:02}:{n % 60:02} mail: request {n} served" for n in range(900))
QUESTION = f"{LOG}\n12:15:00 mail: ERROR disk /dev/sdb1 is full\n\nWhich error does this log show?"


def ask(url: str) -> None:
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    model = client.models.list().data[0].id
    question: Any = {"role": "user", "content": QUESTION}
    chat = client.chat.completions.with_raw_response.create(model=model, messages=[question])
    print("chat completions:", chat.parse().choices[0].message.content)
    sizes = [chat.headers[f"x-asymspec-{view}-tokens"] for view in ("full", "compressed")]
    print("tokens of the full and the compressed view:", *sizes)
    with client.responses.stream(model=model, input=QUESTION) as stream:
        print("responses, streamed:", stream.get_final_response().output_text)


@contextlib.contextmanager
def served(app: Any) -> Any:
    bound = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True).start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(ask(sys.argv[1]))
    backend = ScriptedBackend(lambda request: "disk /dev/sdb1 is full")
    with (
        served(create_app({"scripted": backend})) as upstream,
        served(create_gateway(GatewayOptions(upstream=UpstreamOptions(upstream)))) as gateway,
    ):
        ask(gateway)
