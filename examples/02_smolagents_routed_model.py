"""Wraps a smolagents model so that it reads the compressed view; runs without any real model.

    python examples/02_smolagents_routed_model.py

`Scripted` stands for your model (`OpenAIModel`, `TransformersModel`, …): it counts what it is given to read.
"""

from __future__ import annotations

import json

from smolagents import ChatMessage, Model, ToolCallingAgent, tool

from smolagents_asymspec import RoutedModel, instrument


@tool
def read_log(service: str) -> str:
    """Reads a service's log of today. Give the service by its short name, in lower case, without a version.

    Args:
        service: The service's short name, such as "mail" or "web".
    """
    lines = [f"12:{n // 60:02}:{n % 60:02} {service}: request {n} served" for n in range(3_000)]
    lines[1_234] = f"12:20:34 {service}: ERROR disk /dev/sdb1 is full"
    return "\n".join(lines)


class Scripted(Model):
    def __init__(self) -> None:
        super().__init__(model_id="scripted")
        self.read: list[str] = []

    def generate(self, messages: list[ChatMessage], **kwargs: object) -> ChatMessage:
        self.read.append("\n".join(part["text"] for message in messages for part in message.content))
        call = (
            {"name": "read_log", "arguments": {"service": "mail"}}
            if len(self.read) == 1
            else {"name": "final_answer", "arguments": {"answer": "disk /dev/sdb1 is full"}}
        )
        return ChatMessage(role="assistant", content=json.dumps(call))


def main() -> None:
    inner = Scripted()
    agent = instrument(ToolCallingAgent([read_log], RoutedModel(inner), verbosity_level=-1))
    print("answer:", agent.run("Which error does the mail log show?"))
    remembered = agent.write_memory_to_messages()
    full = sum(len(part["text"]) for message in remembered for part in message.content)
    print(f"the agent remembers {full:,} characters; the model read, call by call:")
    for number, text in enumerate(inner.read, 1):
        error = "with" if "is full" in text else "without"
        print(f"  {number}: {len(text):,} characters, {error} the error line")


if __name__ == "__main__":
    main()
