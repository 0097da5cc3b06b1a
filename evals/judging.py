"""The judge: a grading model over any backend, asked greedily, whose replies are kept in the run's folder.

A judge's prompt holds what the model under test wrote. That text is data: `delimited` marks where it begins
and ends, by a tag that the text itself does not close. It can still plead with the judge, so a judge's reply
is read strictly (a grade, not a mention of one), and what cannot be read is an error of the judge, which is
counted apart from wrong answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from asymspec_agents.attachments.once import Kept
from asymspec_agents.backends import Backend, ChatRequest, HTTPBackend
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.errors import BackendError, ConfigurationError

__all__ = ["CachedJudge", "JudgeOptions", "UnreadableReplyError", "delimited", "open_judge"]

FILE_NAME = "judge.jsonl"


class UnreadableReplyError(BackendError):
    """A judge's reply holds no grade, or more than one; `reply` is what it said."""

    def __init__(self, judge: str, reply: str) -> None:
        super().__init__(f"the judge {judge} gave no readable grade: {reply.strip()[:200]!r}")
        self.judge = judge
        self.reply = reply

    def __reduce__(self) -> tuple[type[UnreadableReplyError], tuple[str, str]]:
        return type(self), (self.judge, self.reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Which model grades: `model` of the server at `url`, or, without one, in this process.

    A server's `model` defaults to its first. In this process it is a preset, a hub name or a local folder and
    must be named.
    """

    url: str | None = None
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.url is None and self.model is None:
            raise ConfigurationError(
                "judge: neither url nor model is given; name a server (and a model where it has several), "
                "or a model to load in this process"
            )


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str


class CachedJudge:
    """Asks a backend at temperature 0, each prompt once: further asks are answered from the file.

    The file has one JSON object a line and only grows. A reply is in it before it is returned, so a run that
    is killed and resumed asks nothing again; a last line that was cut off is passed over. Any
    number of threads may ask, the same prompt too; of processes only one may hold the run's folder.
    """

    def __init__(self, backend: Backend, path: Path, *, name: str | None = None) -> None:
        self._backend = backend
        self._path = path
        self._name = name or backend.capabilities.verifier
        self._lock = threading.Lock()
        self._kept: Kept[_Reply] = Kept(sys.maxsize)
        for key, reply in _read(path):
            self._kept.get(key, partial(_Reply, reply))

    @property
    def name(self) -> str:
        """Which model grades."""
        return self._name

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        """The reply to the prompt; raises what the backend raises, and keeps nothing then."""
        key = _key(self._name, prompt, system, max_tokens)
        return self._kept.get(key, lambda: self._asked(key, prompt, system, max_tokens)).text

    def close(self) -> None:
        """Closes the backend."""
        self._backend.close()

    def _asked(self, key: str, prompt: str, system: str | None, max_tokens: int) -> _Reply:
        messages = [{"role": "system", "content": system}] if system is not None else []
        messages.append({"role": "user", "content": prompt})
        request = ChatRequest(messages=messages, temperature=0.0, max_tokens=max_tokens)  # type: ignore[arg-type]
        reply = self._backend.generate(request).content
        with self._lock:
            self._append({"judge": self._name, "key": key, "prompt": prompt, "reply": reply})
        return _Reply(reply)

    def _append(self, entry: dict[str, str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(entry).encode("ascii") + b"\n"
        with self._path.open("a+b") as file:
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a line that was cut off
                    line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def open_judge(options: JudgeOptions, folder: Path) -> CachedJudge:
    """The judge of these options, with its replies in the run's `folder`; the caller closes it."""
    backend: Backend
    if options.url is not None:
        backend = HTTPBackend(
            options.url,
            api_key=options.api_key,
            model=options.model,
            on_missing_asymspec="warn",  # grading is plain decoding, which any OpenAI-compatible server does
            timeout_s=options.timeout_s,
        )
    else:
        name = str(options.model)
        backend = LocalBackend.load(name, name)
    try:
        return CachedJudge(backend, folder / FILE_NAME, name=options.model)
    except BaseException:
        backend.close()
        raise


def delimited(tag: str, text: str) -> str:
    """The text between `<tag>` and `</tag>`; a number is added to a tag that the text itself holds."""
    chosen, number = tag, 1
    while f"<{chosen}>" in text or f"</{chosen}>" in text:
        number += 1
        chosen = f"{tag}_{number}"
    return f"<{chosen}>\n{text}\n</{chosen}>"


def _key(name: str, prompt: str, system: str | None, max_tokens: int) -> str:
    asked = json.dumps([name, prompt, system, max_tokens])
    return hashlib.sha256(asked.encode("ascii")).hexdigest()


def _read(path: Path) -> Iterator[tuple[str, str]]:
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            key, reply = entry["key"], entry["reply"]
            if isinstance(key, str) and isinstance(reply, str):
                yield key, reply
