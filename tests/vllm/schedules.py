"""Random schedules of a real engine: who asks what when, and what must be true of every answer."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from asymspec_agents.decoding.modes import MODES
from tests.engine.tiny_folder import byte_tokenizer

from .engines import Answer, Ask, K, TinyEngine
from .models import NUM_IDS, VOCAB, modules
from .oracle import Oracle, Seen

__all__ = ["Author", "Book", "Schedule"]

LETTERS, DIGITS = "abcdef", "0123456789"
NUM_LETTERS = 5
MAX_FULL, MAX_COMPRESSED, MAX_ANSWER = 200, 80, 48
TOO_LONG = 1_500
SALTS = (None, None, "one", "two")
GATES = ("cda", "fixed", "position", "fused_greedy", "slack", "strict")
DELTAS = ("context", "full", "scd", "none")


class Author:
    """Makes up requests: prompts that are new, share a beginning, were edited, or go on from an answer."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._stems = [self._ids(MAX_FULL) for _ in range(4)]
        self._past: list[tuple[list[int], list[int]]] = []
        self._asked: list[Ask] = []

    def ask(self) -> Ask:
        """Any request of any kind; sometimes one that was asked before."""
        rng = self._rng
        if self._asked and rng.random() < 0.2:
            return rng.choice(self._asked)
        kind = rng.random()
        if kind < 0.2:
            ask = self._plain()
        elif kind < 0.23:
            ask = Ask(self._ids(5), self._ids(TOO_LONG))
        else:
            full, compressed = self._views()
            ask = Ask(compressed, full, self._options(), **self._answer(), salt=rng.choice(SALTS))
        self._asked.append(ask)
        return ask

    def learn(self, ask: Ask, tokens: Sequence[int]) -> None:
        """What was answered is what later conversations go on from."""
        if ask.full is not None:
            self._past.append(([*ask.full, *tokens], [*ask.compressed, *tokens]))
            self._past = self._past[-8:]

    def _ids(self, num: int) -> list[int]:
        return [self._rng.randrange(256) for _ in range(num)]

    def _plain(self) -> Ask:
        prompt = self._rng.choice(self._stems)[: self._rng.randint(1, 60)] + self._ids(
            self._rng.randint(0, 9)
        )
        if self._rng.random() < 0.4:
            # Without a seed: vLLM's CPU runner can't read a seeded request's prompt in parts.
            return Ask(prompt, max_tokens=self._rng.randint(1, MAX_ANSWER), sampling={"temperature": 1.0})
        return Ask(prompt, **self._answer())

    def _answer(self) -> dict[str, Any]:
        """How it ends: with a grammar, at a token, or at a length."""
        from vllm.sampling_params import StructuredOutputsParams

        rng = self._rng
        length = rng.randint(1, MAX_ANSWER)
        if rng.random() < 0.15:
            num_digits = rng.randint(1, 20)
            regex = f"[{LETTERS}]{{{NUM_LETTERS}}}[{DIGITS}]{{{num_digits}}}"
            grammar = {"structured_outputs": StructuredOutputsParams(regex=regex)}
            return {"max_tokens": NUM_LETTERS + num_digits, "sampling": grammar}
        if rng.random() < 0.2:
            return {"max_tokens": length, "sampling": {"stop_token_ids": rng.sample(range(256), 20)}}
        return {"max_tokens": length}

    def _views(self) -> tuple[list[int], list[int]]:
        rng = self._rng
        if self._past and rng.random() < 0.3:
            full, compressed = rng.choice(self._past)
            if len(full) + 12 < MAX_FULL and len(compressed) + 12 < MAX_COMPRESSED:
                more = self._ids(rng.randint(1, 12))
                return self._edited(full) + more, self._edited(compressed) + more
        kind = rng.random()
        if kind < 0.08:
            same = self._stem(MAX_COMPRESSED)
            return same, same
        if kind < 0.16:
            return self._ids(rng.randint(1, 3)), self._ids(rng.randint(1, 3))
        if kind < 0.24:  # the full one is the shorter
            return self._ids(rng.randint(1, 30)), self._stem(MAX_COMPRESSED)
        end = self._ids(rng.randint(0, 4))
        return self._stem(MAX_FULL - 4) + end, self._stem(MAX_COMPRESSED - 4) + end

    def _stem(self, longest: int) -> list[int]:
        return self._edited(self._rng.choice(self._stems)[: self._rng.randint(1, longest)])

    def _edited(self, ids: list[int]) -> list[int]:
        """The same with one token changed, in some cases: what a cache holds behind it is stale."""
        if self._rng.random() < 0.7:
            return ids
        place = self._rng.randrange(len(ids))
        return [*ids[:place], (ids[place] + 1) % 256, *ids[place + 1 :]]

    def _options(self) -> dict[str, Any]:
        rng = self._rng
        options: dict[str, Any] = {
            "num_draft_tokens": rng.randint(1, K),
            "bonus": rng.choice(("rule", "rule", "none", "verifier")),
            "identical_views": rng.choice(("strict", "gate")),
        }
        if rng.random() < 0.4:
            return options | {"mode": rng.choice(list(MODES))}
        delta = rng.choice(DELTAS)
        return options | {
            "gate": rng.choice(GATES),
            "delta": delta,
            "beta": rng.choice((0.0, 0.5, 1.0, 2.0)),
            "gamma": rng.choice((0.0, 0.3, 0.5, 1.0)),
            "slack": 0.4,
            "plausibility": rng.choice((0.0, 0.0, 0.2)),
            "agreement": rng.random() < 0.2,
        }


class Book:
    """Checks answers; what was checked once by its content is not read again."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.num_stopped = 0
        self.num_found = 0
        self._oracle = Oracle(*modules("qwen2"), NUM_IDS)
        self._texts: dict[str, list[int]] = {}
        self._read: dict[str | None, list[list[int]]] = {}

    def check(self, ask: Ask, answer: Answer) -> None:
        """Asserts that an answer is right, ends where it must, and found no more than others had read."""
        if ask.full is not None and len(ask.full) == TOO_LONG:
            assert answer.finish_reason == "error"
            assert answer.report is not None
            assert "full view" in answer.report["error"]
            return
        self._check_end(ask, answer)
        if ask.full is not None:
            self._check_report(ask, answer)
        key = repr(dataclasses.astuple(ask))
        if self._texts.get(key) == answer.tokens:
            return
        if ask.full is not None:
            self._oracle.check(
                ask.full, ask.compressed, ask.parsed, answer.tokens, self.seen, self._allowed(ask)
            )
        elif "temperature" in ask.sampling:
            assert all(0 <= token < VOCAB for token in answer.tokens)
        else:
            wanted = self._oracle.greedy(ask.compressed, answer.tokens, VOCAB, self._allowed(ask))
            assert answer.tokens == wanted
        self._texts[key] = answer.tokens

    def note(self, ask: Ask) -> None:
        """A request comes: its views may be read, and found by others, from now on."""
        self._read.setdefault(ask.salt, []).extend(
            list(view) for view in (ask.full, ask.compressed) if ask.full is not None and view is not None
        )

    def _check_end(self, ask: Ask, answer: Answer) -> None:
        stops = ask.sampling.get("stop_token_ids", ())
        assert not set(answer.tokens[:-1]) & set(stops)
        if answer.finish_reason == "stop":
            assert answer.tokens[-1] in stops
            self.num_stopped += 1
        else:
            assert answer.finish_reason == "length"
            assert len(answer.tokens) == ask.max_tokens
            assert answer.tokens[-1] not in stops

    def _check_report(self, ask: Ask, answer: Answer) -> None:
        report, full = answer.report, ask.full
        assert report is not None
        assert full is not None
        emitted = report["accepted"] + report["fused"] + report["bonus"]
        assert len(answer.tokens) <= emitted <= len(answer.tokens) + K
        lengths = report["verifier_prompt_tokens"], report["drafter_prompt_tokens"]
        assert lengths == (len(ask.compressed), len(full))
        cached = report["cached_tokens"]
        others = self._read[ask.salt]
        self.num_found += bool(cached["drafter"]) + bool(cached["base"])
        for name, view in (("drafter", full), ("base", ask.compressed)):
            assert cached[name] <= max(_common(view, other) for other in others)

    def _allowed(self, ask: Ask) -> list[list[int]] | None:
        if "structured_outputs" not in ask.sampling:
            return None
        letters, digits = (byte_tokenizer().convert_tokens_to_ids(list(x)) for x in (LETTERS, DIGITS))
        return [letters] * NUM_LETTERS + [digits] * (ask.max_tokens - NUM_LETTERS)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with together."""
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))  # noqa: B905


class Schedule:
    """A seeded schedule on a running engine: joins, aborts, resets of the caches, names used again."""

    def __init__(self, engine: TinyEngine, author: Author, book: Book, seed: int) -> None:
        self._engine, self._author, self._book = engine, author, book
        self._rng = random.Random(seed)
        self._asked: dict[str, Ask] = {}

    def run(self) -> None:
        """Runs it to its end."""
        rng = self._rng
        for _ in range(rng.randint(4, 16)):
            for _ in range(rng.randint(0, 4)):
                self._take(self._engine.step())
            if self._asked and rng.random() < 0.2:
                name = rng.choice(sorted(self._asked))
                del self._asked[name]
                self._engine.abort(name)
            if rng.random() < 0.05:
                self._engine.llm.llm_engine.reset_prefix_cache(reset_running_requests=rng.random() < 0.5)
            free = sorted({f"n{i}" for i in range(20)} - self._asked.keys())
            name = rng.choice(free[:4])
            self._asked[name] = self._author.ask()
            self._book.note(self._asked[name])
            self._engine.add(self._asked[name], name)
        self._take(self._engine.finish())
        assert not self._asked

    def _take(self, finished: Mapping[str, Answer]) -> None:
        for name, answer in finished.items():
            ask = self._asked.pop(name)
            self._book.check(ask, answer)
            if answer.finish_reason != "error":
                self._author.learn(ask, answer.tokens)
