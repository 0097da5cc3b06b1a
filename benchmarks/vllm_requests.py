"""Random requests for `vllm_long_run.py`: ordinary ones, the worst inputs, and such as must be refused."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

__all__ = ["CHAT", "TEXT", "Author", "Wish", "document"]

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SPECIAL = "<|im_start|><|im_end|>"
WORDS = ("log", "error", "disk", "node", "retry", "time", "ok", "value", "Straße", "数据", "🙂", "\n", "0x1f")
MODES = ("asymspec", "asymspec", "product", "scaled", "fused_greedy", "cda_only", "scd_delta", "strict")
LONG_CHARS = 12_000  # a document that takes a tenth of the pool


@dataclass(frozen=True, slots=True)
class Wish:
    """A request, and what must come of it.

    `status` is None where either an answer or a refusal will do. `is_settled`: the text depends on the body
    alone, however requests are batched.
    """

    kind: str
    path: str
    body: dict[str, Any]
    status: int | None = 200
    is_settled: bool = True

    @property
    def has_views(self) -> bool:
        """Whether it is an AsymSpec request."""
        return "asymspec" in self.body

    @property
    def key(self) -> str:
        """What makes two requests one and the same."""
        return self.path + json.dumps({k: v for k, v in self.body.items() if k != "stream"}, sort_keys=True)


def document(num_chars: int, seed: int) -> str:
    """A text without repeats; the models' tokenizer has a token for each byte, so it is ASCII."""
    rng = random.Random(seed)
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz     \n", k=num_chars))


class Author:
    """Makes up requests; `longest` is the length of the longest document, in tokens."""

    def __init__(self, seed: int, longest: int) -> None:
        self._rng = random.Random(seed)
        self._longest = longest
        self._past: list[Wish] = []
        self._worst: list[Wish] = []
        self._talk: list[dict[str, str]] = []

    def wish(self) -> Wish:
        """The next request; one in eight was made before."""
        rng = self._rng
        if self._past and rng.random() < 0.12:
            return rng.choice(self._past)
        kind = rng.random()
        if kind < 0.40:
            wish = self._chat()
        elif kind < 0.55:
            wish = self._ids()
        elif kind < 0.70:
            wish = self._plain()
        elif kind < 0.73:
            wish = self._long()
        elif kind < 0.92:
            self._worst = self._worst or self._worst_ones()
            wish = self._worst.pop()
        else:
            wish = self._refused()
        self._past = [*self._past[-40:], wish]
        return wish

    def longest(self) -> Wish:
        """The longest document with a question, its compressed view short."""
        text = document(self._longest, seed=1)
        return self._views("longest", [{"role": "user", "content": text}], "Short.", max_tokens=12)

    def _text(self, most: int) -> str:
        return " ".join(self._rng.choices(WORDS, k=self._rng.randint(1, most)))

    def _random_ids(self, num: int) -> list[int]:
        return [self._rng.randrange(256) for _ in range(num)]

    def _options(self) -> tuple[dict[str, Any], bool]:
        rng = self._rng
        bonus = rng.choice(("rule", "rule", "none", "verifier"))
        options = {"mode": rng.choice(MODES), "num_draft_tokens": rng.randint(1, 3), "bonus": bonus}
        if rng.random() < 0.5:
            options |= {"beta": rng.choice((0.5, 1.0, 2.0)), "gamma": rng.choice((0.3, 0.5, 1.0))}
        return options, bonus != "verifier"

    def _views(self, kind: str, messages: list[Any], short: str, **fields: Any) -> Wish:
        """A chat of which the last message is short in the compressed view."""
        options, is_settled = self._options()
        edits = [{"message": len(messages) - 1, "text": short}]
        body = {"messages": messages, "asymspec": {"edits": edits, **options}, "temperature": 0, **fields}
        return Wish(kind, CHAT, body, is_settled=is_settled)

    def _chat(self) -> Wish:
        """A conversation that grows, and sometimes begins anew."""
        rng = self._rng
        if not self._talk or len(self._talk) > 12 or rng.random() < 0.1:
            self._talk = [{"role": "system", "content": self._text(20)}]
        role = "assistant" if self._talk[-1]["role"] == "user" else "user"
        self._talk = [*self._talk, {"role": role, "content": self._text(60)}]
        fields: dict[str, Any] = {"max_tokens": rng.randint(1, 40), "stream": rng.random() < 0.5}
        if rng.random() < 0.1:
            fields["stop"] = [rng.choice("aeiou"), "\n"]
        if rng.random() < 0.1:
            fields["structured_outputs"] = {"regex": "[a-f]{4}[0-9]{8}"}
        if rng.random() < 0.2:
            fields["cache_salt"] = rng.choice(("one", "two"))
        return self._views("chat", self._talk, self._text(5), **fields)

    def _ids(self) -> Wish:
        options, is_settled = self._options()
        full, short = self._random_ids(self._rng.randint(1, 900)), self._random_ids(self._rng.randint(1, 90))
        body = {"prompt": full, "asymspec": {"prompt": short, **options}, "temperature": 0}
        body |= {"max_tokens": self._rng.randint(1, 30), "stream": self._rng.random() < 0.5}
        return Wish("ids", TEXT, body, is_settled=is_settled)

    def _plain(self) -> Wish:
        rng = self._rng
        body = {"messages": [{"role": "user", "content": self._text(80)}], "max_tokens": rng.randint(1, 40)}
        body |= {"temperature": 1.0 if rng.random() < 0.3 else 0, "stream": rng.random() < 0.5}
        return Wish("plain", CHAT, body, is_settled=body["temperature"] == 0)

    def _long(self) -> Wish:
        text = document(LONG_CHARS, seed=self._rng.randrange(6))
        return self._views("long", [{"role": "user", "content": text}], text[:200], max_tokens=8)

    def _worst_ones(self) -> list[Wish]:
        """All of them once, in some order."""
        short = {"role": "user", "content": self._text(4)}
        surrogate = [{"role": "user", "content": "\ud800 half a character"}]
        same = self._random_ids(40)
        ones = [
            self._views("empty compressed text", [short], "", max_tokens=6),
            self._views("empty full text", [{"role": "user", "content": ""}], "Something.", max_tokens=6),
            self._views(
                "special tokens", [{"role": "user", "content": SPECIAL * 300}], SPECIAL, max_tokens=20
            ),
            self._views("lone surrogate", surrogate, "\udfff", max_tokens=6),
            self._views("zero bytes", [{"role": "user", "content": "\0" * 50}], "\0", max_tokens=6),
            self._views("full is shorter", [short], self._text(200), max_tokens=20),
            self._views("long answer", [short], "x", max_tokens=600, ignore_eos=True, stream=True),
            self._prompts("one token", [7], [9]),
            self._prompts("one token each, alike", [7], [7]),
            self._prompts("identical views", same, same),
            self._prompts("identical views, gate kept", same, same, identical_views="gate"),
            self._prompts("full is shorter, in ids", same[:2], self._random_ids(700)),
            self._prompts("special tokens, in ids", [256, 257] * 400, [257, 256]),
            self._prompts("end of text", [257] * 30, [257]),
        ]
        self._rng.shuffle(ones)
        return ones

    def _prompts(self, kind: str, full: list[int], short: list[int], **options: Any) -> Wish:
        body = {"prompt": full, "asymspec": {"prompt": short, **options}, "temperature": 0, "max_tokens": 20}
        return Wish(kind, TEXT, body)

    def _refused(self) -> Wish:
        """What must be a clear error, whatever else goes on."""
        rng = self._rng
        text = [{"role": "user", "content": self._text(9)}]
        edits = [{"message": 0, "text": "x"}]
        chat: list[tuple[str, dict[str, Any]]] = [
            ("no messages", {"messages": [], "asymspec": {"edits": []}}),
            ("neither edits nor messages", {"messages": text, "asymspec": {}}),
            ("no such message", {"messages": text, "asymspec": {"edits": [{"message": 9, "text": "x"}]}}),
            ("temperature", {"messages": text, "asymspec": {"edits": edits}, "temperature": 0.7}),
            ("beta", {"messages": text, "asymspec": {"edits": edits, "beta": 99}}),
            ("drafts", {"messages": text, "asymspec": {"edits": edits, "num_draft_tokens": 8}}),
            ("unknown field", {"messages": text, "asymspec": {"edits": edits, "wish": 1}}),
            ("too long", {"messages": text, "asymspec": {"edits": edits}, "max_tokens": 10**6}),
            ("logprobs", {"messages": text, "asymspec": {"edits": edits}, "logprobs": True}),
        ]
        prompts: list[tuple[str, dict[str, Any]]] = [
            ("empty prompt", {"prompt": [], "asymspec": {"prompt": [1]}}),
            ("empty compressed prompt", {"prompt": [1], "asymspec": {"prompt": ""}}),
            ("no such token", {"prompt": [10**6], "asymspec": {"prompt": [1]}}),
            ("no such token, compressed", {"prompt": [1], "asymspec": {"prompt": [10**6]}}),
            ("negative token", {"prompt": [-1], "asymspec": {"prompt": [1]}}),
        ]
        if rng.random() < 0.5:
            kind, body = rng.choice(chat)
            return Wish(f"refused: {kind}", CHAT, body, status=400)
        kind, body = rng.choice(prompts)
        return Wish(f"refused: {kind}", TEXT, body, status=400)
