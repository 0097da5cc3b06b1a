"""The llmlingua package's compressor without what breaks it: a subclass with another start and other edges.

Of llmlingua 0.2.2: its constructor fetches a tokenizer of OpenAI's; it seeds every random generator and
writes into the environment; it adds a hundred tokens with random embeddings, under names a text may contain;
it trusts code in checkpoints, and writes that into a dict all instances share; it tells kinds of checkpoints
by a part of their path; it gives XLM-R BERT's special tokens; it fails on texts without a known word; and it
computes 512 tokens for forty, again for every rate.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor

from ...engine.model import no_progress_bar
from ...errors import MissingDependencyError
from ...tokens import TokenCounter

try:
    from llmlingua import PromptCompressor
except ImportError as error:
    raise MissingDependencyError("llmlingua", "llmlingua") from error

__all__ = ["OfflineCompressor"]

MAX_CACHED_ROWS = 2_048  # about 6 kB each
KINDS = {"wordpiece": "bert-base-multilingual-cased", "metaspace": "xlm-roberta-large"}


class OfflineCompressor(PromptCompressor):  # type: ignore[misc]
    """A PromptCompressor for LLMLingua-2 over a local folder; use from one thread at a time.

    `counter` weighs words in the threshold, in place of OpenAI's tokenizer; set it before a call.
    """

    tokenizer: Any
    model: Any

    def __init__(self, folder: Path, *, family: Literal["wordpiece", "metaspace"], device: str) -> None:
        self.use_llmlingua2 = True
        self.max_batch_size = 1
        self.max_seq_len = 512
        self.max_force_token = 0
        self.added_tokens: list[str] = []
        self.oai_tokenizer = _WordWeights()
        with no_progress_bar():
            self.load_model(str(folder), device, {"trust_remote_code": False, "local_files_only": True})
        self.model_name = KINDS[family]
        names = self.tokenizer.special_tokens_map.values()
        self.special_tokens = {name for name in names if isinstance(name, str)}
        self.model = _RememberedModel(self.model)
        self.tokenizer = _RenamedTokens(self.tokenizer)

    def labels(self, text: str, rate: float, counter: TokenCounter) -> list[tuple[str, bool]]:
        """The package's words of `text` and whether it keeps each at `rate`, which lies in (0, 1)."""
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        if {"▁", *self.special_tokens}.issuperset(self.tokenizer.convert_ids_to_tokens(ids)):
            return []  # the package finds no word in it, and fails
        self.oai_tokenizer.counter = counter
        with torch.random.fork_rng(devices=[]):  # its loader of batches draws a number
            answer = self.compress_prompt(
                [text],
                rate=rate,
                use_context_level_filter=False,
                return_word_label=True,
                word_sep=_WORD_END,
                label_sep=_LABEL,
            )
        lines = answer["fn_labeled_original_prompt"].split(_WORD_END)
        return [(line.partition(_LABEL)[0], line.endswith("1")) for line in lines]


# Noncharacters, which no tokenizer's piece holds.
_WORD_END, _LABEL = "\ufdd0", "\ufdd1"


class _WordWeights:
    """Stands for OpenAI's tokenizer, of which the package asks only how many tokens a word has."""

    counter: TokenCounter | None = None

    def encode(self, word: str) -> range:
        written = word.lstrip("▁")
        return range(max(self.counter.count(written), 1) if self.counter is not None and written else 0)


class _RenamedTokens:
    """A tokenizer that takes BERT's names of the special tokens for its own."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        own = {"[CLS]": tokenizer.cls_token, "[SEP]": tokenizer.sep_token, "[PAD]": tokenizer.pad_token}
        self._own = {name: token for name, token in own.items() if token is not None}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, text: str, **options: Any) -> Any:
        return self._tokenizer(text, **options)

    def convert_tokens_to_ids(self, tokens: list[str]) -> Any:
        return self._tokenizer.convert_tokens_to_ids([self._own.get(token, token) for token in tokens])


class _RememberedModel:
    """A model that computes each sequence once, without its padding."""

    def __init__(self, module: Any) -> None:
        module.train(False)
        self._module = module
        self._rows: OrderedDict[bytes, Tensor] = OrderedDict()  # least recently used first

    def __call__(self, *, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        width = input_ids.shape[1]
        rows = [
            torch.nn.functional.pad(self._row(ids[:length]), (0, 0, 0, width - length))
            for ids, length in zip(input_ids, attention_mask.sum(dim=1).tolist(), strict=True)
        ]
        return SimpleNamespace(loss=None, logits=torch.stack(rows))  # [batch, width, 2]

    def _row(self, ids: Tensor) -> Tensor:
        key = ids.cpu().numpy().tobytes()
        found = self._rows.get(key)
        if found is None:
            found = self._module(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]).logits[0]
            self._rows[key] = found
            if len(self._rows) > MAX_CACHED_ROWS:
                self._rows.popitem(last=False)
        self._rows.move_to_end(key)
        return found
