"""What a drafter of another family reads: rendered by its own chat template, in tokens of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from asymspec_agents.backends.prompts import DrafterPrompts, PromptMaker, Prompts
from asymspec_agents.backends.request import AnyRequest, ChatRequest
from asymspec_agents.decoding.vocab import check_rule
from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.errors import UnsupportedRequestError
from asymspec_agents.protocol import AsymSpecOptions

from ..family import Family

__all__ = ["OwnViews"]

# Fields of vLLM's that change how a prompt is made, each with the value that asks for nothing.
PROMPT_FIELDS: Mapping[str, Any] = {
    "add_generation_prompt": True,
    "continue_final_message": False,
    "documents": None,
}


class OwnViews:
    """Makes the drafter's prompts. `tokenizer` is the verifier's; the names are those of the models."""

    def __init__(self, family: Family, drafter: str, tokenizer: Any, verifier: str) -> None:
        template = ChatTemplate(tokenizer)
        self._prompts = DrafterPrompts(ChatTemplate(family.tokenizer), cast(Any, family), drafter, template)
        self._verifier = PromptMaker(template, family.num_ids, verifier)

    def problems(
        self, request: AnyRequest, options: AsymSpecOptions
    ) -> list[tuple[str, UnsupportedRequestError]]:
        """What a drafter of another family can't follow, each with the name of the fallback to none."""
        problems = []
        try:
            check_rule(options.rule())
        except UnsupportedRequestError as error:
            problems.append(("cross_family_delta", error))
        for name, neutral in PROMPT_FIELDS.items():
            value = request.extra.get(name, neutral)
            if value != neutral and value is not None:
                text = (
                    f"{name}={value!r:.80}: the drafter reads the conversation by a chat template of its "
                    "own, which doesn't know it; leave it out"
                )
                problems.append((f"{name}_unsupported", UnsupportedRequestError(text)))
        return problems

    def read(self, request: AnyRequest) -> Prompts:
        """Both views; prompts that are given as ids are the verifier's. Raises MessageError."""
        if isinstance(request, ChatRequest):
            reads_verifiers = self._prompts.reads_verifiers(request)
            verifier = self._verifier.prompts(request) if reads_verifiers else Prompts((), ())
            return self._prompts.beside(request, verifier)
        short = None if request.asymspec is None else request.asymspec.prompt
        full, compressed = (
            () if prompt is None or isinstance(prompt, str) else prompt for prompt in (request.prompt, short)
        )
        return self._prompts.beside(request, Prompts(full, compressed))
