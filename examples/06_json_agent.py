"""An agent loop without any framework, for models that write their actions as JSON.

    python examples/06_json_agent.py

The scripted backend stands for a model; `LocalBackend.load()` or `HTTPBackend(url)` is a real one.
"""

from __future__ import annotations

from asymspec_agents import ScriptedBackend
from asymspec_agents.actions import ActionCaller, result_message

ANSWERS = (
    'I look at the log.\n```json\n{"tool": "read_log", "args": {"service": "mail", "lines": "900",}}\n```',
    '{"name": "final_answer", "arguments": {"text": "disk /dev/sdb1 is full"}}',
    '{"name": "final_answer", "arguments": {"answer": "disk /dev/sdb1 is full"}}',
)


def read_log(service: str, lines: int) -> str:
    """Reads the newest lines of a service's log of today. Give the service by its short name."""
    log = [f"12:{n // 60:02}:{n % 60:02} {service}: request {n} served" for n in range(lines)]
    log[321] = f"12:05:21 {service}: ERROR disk /dev/sdb1 is full"
    return "\n".join(log)


def final_answer(answer: str) -> str:
    """Ends the task with its answer."""
    return answer


TOOLS = {"read_log": read_log, "final_answer": final_answer}


def main() -> None:
    caller = ActionCaller(ScriptedBackend(ANSWERS), list(TOOLS.values()), max_tokens=200)
    history = caller.start("Which error does the mail log show?")
    for _ in range(5):
        step = caller.call(history)  # asks once more, quoting the error, where an answer is no valid action
        report = step.routed[-1].report
        print(
            f"{step.action.name}: {report.full_tokens} -> {report.compressed_tokens} tokens, "
            f"{len(step.responses)} tries; {'; '.join(step.action.changes) or 'as written'}"
        )
        outputs = [TOOLS[action.name](**action.arguments) for action in step.actions]
        history += [*step.messages, result_message(outputs)]
        if step.action.name == "final_answer":
            print("answer:", outputs[0])
            return


if __name__ == "__main__":
    main()
