"""A server process without models, run by tests: `python -m tests.server.held_server [held|stuck]`.

It answers "one " and is then silent for ever; asked for "prefill", it is silent from the start. "quick" is
answered whole. `stuck`: it does not even notice that a request was given up.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

from asymspec_agents.backends import Backend, Capabilities, ChatDelta, Usage
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import RequestAbortedError
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.server import queue, running
from asymspec_agents.server.app import create_app
from tests.server.serving import text_of


class Silent(Backend):
    """Says at most one word."""

    def __init__(self, *, is_stuck: bool) -> None:
        self._is_stuck = is_stuck

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("silent", "small", ("asymspec",))

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        text = text_of(request)
        if text != "prefill":
            yield ChatDelta(content="one ")
        while text != "quick":
            time.sleep(0.01)
            if not self._is_stuck and abort is not None and abort.is_set():
                raise RequestAbortedError("aborted")
        report = None if request.asymspec is None else AsymSpecReport()
        yield ChatDelta(finish_reason="stop", usage=Usage(1, 1), report=report)


def main() -> None:
    running.GRACE_S = running.FURTHER_GRACE_S = 1
    queue.STOP_WAIT_S = 1
    app = create_app({"silent": Silent(is_stuck=sys.argv[1] == "stuck")})
    with running.listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        running.serve(
            app,
            bound,
            ready=lambda: print(f"Ready: http://127.0.0.1:{port}/v1", flush=True),
            end_open=app.state.queue.give_up_all,
        )


if __name__ == "__main__":
    main()
