"""Traces for the page: a real run of the tiny random pair through the router, and one that means harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asymspec_agents.backends import ChatRequest, new_request_id
from asymspec_agents.recording import for_request
from asymspec_agents.router import ContextRouter
from asymspec_agents.trace import JSONLRecorder
from asymspec_agents.views import ViewPolicy
from tests.engine.tiny_folder import WEATHER, random_backend

LOG = "\n".join(
    f"12:{n:02}:00 request {n} served" if n != 7 else "12:07:00 ERROR disk full" for n in range(14)
)


def record_run(path: Path, *, arm: str = "asymspec", content: bool = True, level: Any = "detail") -> None:
    """Three calls of a conversation whose tool results are compressed; the first has identical views."""
    with JSONLRecorder(path, captures_content=content, level=level) as recorder:
        backend = random_backend(recorder=recorder).with_arm(arm)
        router = ContextRouter(
            ViewPolicy(keep_last=0), recorder=recorder, prompt_counter=backend.prompt_counter
        )
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What does the log say about disk errors?"},
        ]
        for turn in range(3):
            request_id = new_request_id()
            with for_request(request_id):
                routed = router.route(messages, [WEATHER])
            answer = backend.generate(
                ChatRequest(
                    messages=routed.full,
                    tools=routed.tools,
                    asymspec=routed.request(),
                    max_tokens=24,
                    request_id=request_id,
                )
            )
            called = {"name": "weather", "arguments": json.dumps({"city": f"Rome {turn}"})}
            messages += [
                {
                    "role": "assistant",
                    "content": answer.content or "",
                    "tool_calls": [{"id": f"c{turn}", "type": "function", "function": called}],
                },
                {"role": "tool", "tool_call_id": f"c{turn}", "content": LOG},
            ]
    assert recorder.num_dropped == 0


SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--<script>"
RTL = "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u2066x\u2069"
EMOJI = "👩‍👩‍👧‍👦 🇮🇹 \ud83d e\u0301"
HOSTILE = (SCRIPT, RTL, EMOJI, "\x00\x1b[31m\x7f", "javascript:alert(3)", "__proto__", "constructor")


def record_hostile(path: Path) -> None:
    """Every kind of text where texts stand, a line of 1 MB, and lines that are no events."""
    with JSONLRecorder(path, captures_content=True, level="detail") as recorder:
        for number, text in enumerate(HOSTILE):
            name = f"r{number} {text}"
            digest, long = f"{number}" * 64, "__proto__" if text == "__proto__" else f"long {number}"
            recorder.record("text", digest=digest, text=text)
            recorder.record("text", digest=long, text=(text + " ") * (1_000_000 // (len(text) + 1)))
            part = {"digest": digest, "num_chars": len(text), "name": text, "type": None}
            recorder.record(
                "view",
                request_id=name,
                task_digest=digest,
                messages=[
                    {
                        "role": text,
                        "name": text,
                        "parts": [
                            {
                                **part,
                                "shown_digest": long,
                                "num_shown_chars": 9,
                                "compressor": text,
                                "tier": text,
                            }
                        ],
                        "calls": [{"name": text, "digest": digest, "num_chars": 1}],
                    },
                    {
                        "role": "tool",
                        "parts": [{"digest": long, "num_chars": 1_000_000}],
                        "result_of": [0, 0],
                    },
                    {"role": "tool", "parts": [{"digest": "nowhere"}], "result_of": [7, 9]},
                ],
                full_tokens=9,
            )
            recorder.record("request", request_id=name, arm=text, mode=text, fallback=text, gate=text)
            recorder.record(
                "block",
                request_id=name,
                index=0,
                num_drafted=3,
                num_accepted=1,
                num_fused=1,
                divergence=[0.1, "NaN"],
                text=text,
                positions=[
                    {
                        "origin": "accepted",
                        "text": text,
                        "token_id": 1,
                        "is_argmax": True,
                        "best_t": [[0.5, 1, text]],
                    },
                    {
                        "origin": text,
                        "text": text,
                        "token": text,
                        "is_argmax": False,
                        "argmax": text,
                        "draft": text,
                    },
                ],
            )
            recorder.record("response", request_id=name, finish_reason=text, num_tokens=2, text=text)
            recorder.record("error", request_id=name, error_type=text, message=text)
            recorder.record("compress", request_id=name, compressor=text, reason=text, fallback=text)
    with path.open("ab") as file:
        file.write(b'{"event":"view"\n' + b"\xff\xfe\n" + b"[" * 100_000 + b"\n" + b'{"event":1}\n')
        file.write(b'{"event":"<script>alert(4)</script>","timestamp_s":1}\n{"event":"block","times')
