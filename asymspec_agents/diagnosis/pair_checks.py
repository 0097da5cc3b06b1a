"""The checks of a chosen pair: whether both models are here, work together, and are worth it."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import IncompatibleModelsError, WeightsError
from .finding import Check, Finding
from .installation_checks import GB, OVERHEAD_BYTES
from .pair import ChosenPair, ModelFacts

__all__ = ["PAIR_CHECKS"]

LARGEST_DRAFTER = 0.5
"""Above this share of the verifier's size, reading everything costs more than compression saves."""

ANOTHER_DRAFTER = "a drafter of the verifier's own family, or one that reads texts only"


def _verifier(pair: ChosenPair) -> Iterator[Finding]:
    """Whether the verifier is on this machine, and reads texts."""
    try:
        found = _found("verifier", pair.verifier)
        if pair.verifier.sees:
            text = f"{found.found}; it is a vision-language model, and a verifier reads texts only"
            found = Finding("verifier", "FAIL", text, "the text model of its family")
        yield found
    except WeightsError as error:
        yield _absent("verifier", pair.verifier_name, error)
    except IncompatibleModelsError as error:
        yield Finding("verifier", "FAIL", str(error), "a model that reads texts only")


def _drafter(pair: ChosenPair) -> Iterator[Finding]:
    """Whether the drafter is; of one that sees images, whether it can be shown any."""
    try:
        found = _found("drafter", pair.drafter)
    except WeightsError as error:
        yield _absent("drafter", pair.drafter_name, error)
        return
    except IncompatibleModelsError as error:
        yield Finding("drafter", "FAIL", str(error), ANOTHER_DRAFTER)
        return
    try:
        if pair.drafter.sees:
            pair.check_sight()
    except (WeightsError, IncompatibleModelsError) as error:
        fix = f"give {pair.drafter.path} the image processor's files that the model was published with"
        found = Finding("drafter", "FAIL", str(error), f"{fix}, or choose {ANOTHER_DRAFTER}")
    yield found


def _found(role: str, model: ModelFacts) -> Finding:
    text = f"{model.name}: {model.architecture}, weights of {model.weight_bytes / GB:.1f} GB, "
    return Finding(role, "ok", f"{text}up to {model.max_tokens:,} tokens, in {model.path}")


def _absent(role: str, name: str, error: WeightsError) -> Finding:
    fix = f"asymspec models pull {name} (presets and models of the hub), or give a folder that has all of it"
    return Finding(role, "FAIL", str(error), fix)


def _vocabulary(pair: ChosenPair) -> Iterator[Finding]:
    """Whether a token means the same to both: the method compares their distributions place by place."""
    large, small = pair.verifier.vocabulary, pair.drafter.vocabulary
    if large == small:
        yield Finding("vocabulary", "ok", f"the same in both, {len(large):,} tokens")
        return
    if pair.drafter.sees:
        try:
            pair.check_seen_vocabulary()
        except IncompatibleModelsError as error:
            yield Finding("vocabulary", "FAIL", str(error), ANOTHER_DRAFTER)
            return
        more = f"{len(small) - len(large):,} more in the drafter's, which sees images"
        yield Finding(
            "vocabulary", "ok", f"the verifier's {len(large):,} tokens are the same in both, {more}"
        )
        return
    same = sum(large.get(token) == number for token, number in small.items())
    text = f"{len(large):,} and {len(small):,} tokens, {same:,} of them the same"
    in_order = sorted(small, key=small.__getitem__)
    odd = next((token for token in in_order if large.get(token) != small[token]), None)
    if odd is not None:
        there = f"number {large[odd]}" if odd in large else "missing"
        text += f"; {odd!r} is number {small[odd]} in the drafter's and {there} in the verifier's"
    own_family = "choose a drafter of the verifier's own family"
    try:
        found = pair.coverage
    except IncompatibleModelsError as error:
        yield Finding("vocabulary", "FAIL", f"{text}; no vocabulary map is possible: {error}", own_family)
        return
    text += (
        f"; a vocabulary map would pair {found.num_mapped:,} tokens: {found.verifier_ids:.0%} of the "
        f"verifier's, and {found.verifier_bytes:.0%} of a sample text's bytes"
    )
    fix = f'let them work together through a map (--vocab-map auto, vocab_map="auto"), or {own_family}'
    yield Finding("vocabulary", "warn", text, fix)


def _size(pair: ChosenPair) -> Iterator[Finding]:
    """Whether the drafter is small enough to read everything at little cost."""
    if pair.verifier.path == pair.drafter.path:
        yield Finding("size", "info", "one model in both roles: a control, which saves nothing")
        return
    share = pair.drafter.weight_bytes / max(1, pair.verifier.weight_bytes)
    text = f"the drafter has {share:.2f} of the verifier's weights"
    if share > LARGEST_DRAFTER:
        yield Finding("size", "warn", text, "a smaller drafter, or a larger verifier, of the same family")
    else:
        yield Finding("size", "ok", text)


def _reach(pair: ChosenPair) -> Iterator[Finding]:
    """Whether the drafter, which reads the full view, reads as far as the verifier."""
    large, small = pair.verifier.max_tokens, pair.drafter.max_tokens
    text = f"compressed view up to {large:,} tokens, full view up to {small:,}"
    if small < large:
        fix = "a drafter that reads more; else full views beyond its limit are refused"
        yield Finding("reach", "warn", text, fix)
    else:
        yield Finding("reach", "ok", text)


def _pair_memory(pair: ChosenPair) -> Iterator[Finding]:
    """Whether both fit at once."""
    models = {model.path: model.weight_bytes for model in (pair.verifier, pair.drafter)}
    needed = sum(models.values()) + OVERHEAD_BYTES
    text = f"the pair needs about {needed / GB:.1f} GB"
    if pair.available_bytes is None:
        yield Finding("memory", "info", f"unknown here; {text}")
    elif pair.available_bytes < needed:
        text += f", {pair.available_bytes / GB:.1f} GB are available (of the machine, not of a GPU)"
        yield Finding("memory", "warn", text, "close other programs, or take smaller models")
    else:
        yield Finding("memory", "ok", f"{text}; {pair.available_bytes / GB:.1f} GB are available")


PAIR_CHECKS: tuple[Check[ChosenPair], ...] = (
    Check("verifier", _verifier),
    Check("drafter", _drafter),
    Check("vocabulary", _vocabulary, needs=("verifier", "drafter")),
    Check("size", _size, needs=("verifier", "drafter")),
    Check("reach", _reach, needs=("verifier", "drafter")),
    Check("memory", _pair_memory, needs=("verifier", "drafter")),
)
"""Whether they are there comes first."""
