"""Both views of one LLM call, without any model.

python examples/01_router.py
"""

from __future__ import annotations

from asymspec_agents import ContextRouter, ViewPolicy

LOG = "\n".join(
    f"12:{n // 60 % 60:02}:{n % 60:02} request {n} served in {n % 37} ms" for n in range(2_000)
).replace("request 1234 served in 13 ms", "request 1234 failed: TimeoutError")

TOOL = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "Reads the log of a service. " + "This sentence explains it at length. " * 30,
        "parameters": {
            "type": "object",
            "properties": {"service": {"type": "string", "description": "Short name, in lower case."}},
            "required": ["service"],
        },
    },
}

MESSAGES = [
    {"role": "system", "content": "You read logs."},
    {"role": "user", "content": "Which request of the mail service failed, and how?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "read_log", "arguments": '{"service": "mail"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": LOG},
]


def main() -> None:
    router = ContextRouter(ViewPolicy(max_verifier_tokens=4_000))
    routed = router.route(MESSAGES, [TOOL])
    print(f"full view {routed.report.full_tokens:,} tokens, compressed {routed.report.compressed_tokens:,}")
    print("tool, as the verifier reads it:", routed.compressed_tools[0].wire()["function"])
    shown = routed.compressed[3].texts()[0]
    print("the line that matters:", next(line for line in shown.splitlines() if "failed" in line))
    again = router.route([*MESSAGES, {"role": "assistant", "content": "Request 1234."}], [TOOL])
    print("the next call's view begins alike:", again.compressed[: len(MESSAGES)] == routed.compressed)


if __name__ == "__main__":
    main()
