"""The facts about two models that are to work together, read from their folders; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..decoding.coverage import Coverage, coverage
from ..decoding.vocab import VocabMap
from ..errors import MissingDependencyError
from ..weights import resolve

__all__ = ["ChosenPair", "ModelFacts"]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model's folder says: sizes in bytes and tokens, its vocabulary, and whether it sees images."""

    name: str
    path: Path
    architecture: str
    weight_bytes: int
    max_tokens: int
    vocabulary: Mapping[str, int]
    sees: bool


@dataclass(frozen=True)
class ChosenPair:
    """A verifier and a drafter by preset, folder or hub name.

    Its facts raise WeightsError where a model isn't on this machine, IncompatibleModelsError where it is a
    vision-language model that cannot be used, and MissingDependencyError without the extra `engine`.
    """

    verifier_name: str
    drafter_name: str
    available_bytes: int | None

    @cached_property
    def verifier(self) -> ModelFacts:
        """What the verifier's folder says."""
        return _facts(self.verifier_name)

    @cached_property
    def drafter(self) -> ModelFacts:
        """What the drafter's folder says."""
        return _facts(self.drafter_name)

    def check_sight(self) -> None:
        """Raises WeightsError or IncompatibleModelsError where a drafter that sees can be shown no image."""
        from ..engine.load import load_tokenizer
        from ..engine.vision.load import load_looker
        from ..engine.vision.options import VisionOptions

        path = self.drafter.path
        load_looker(path, load_tokenizer(path), name=self.drafter_name, options=VisionOptions())

    def check_seen_vocabulary(self) -> None:
        """Raises IncompatibleModelsError where a drafter that sees has another vocabulary."""
        from ..engine.vision.load import check_vocabulary

        names = self.verifier_name, self.drafter_name
        check_vocabulary(self.verifier.vocabulary, self.drafter.vocabulary, names)

    @cached_property
    def coverage(self) -> Coverage:
        """What a vocabulary map would cover; raises IncompatibleModelsError where there can be none."""
        from ..engine.load import load_speller

        large, small = (load_speller(model.path, name=model.name) for model in (self.verifier, self.drafter))
        return coverage(VocabMap.build(large.vocabulary, small.vocabulary), large, small)


def _facts(name: str) -> ModelFacts:
    try:
        from ..engine.files import read_config, reading
        from ..engine.load import load_tokenizer
        from ..engine.model import max_positions
        from ..engine.vision.load import is_seeing
    except ImportError as error:
        raise MissingDependencyError("transformers", "engine") from error
    folder = resolve(name, offline=True).path
    config, sees = read_config(folder), is_seeing(folder, name)
    with reading(f"cannot load a model from {folder}"):
        return ModelFacts(
            name=name,
            path=folder,
            architecture=", ".join(config.architectures or [config.model_type]),
            weight_bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
            max_tokens=max_positions(config.get_text_config(decoder=True)),
            vocabulary=load_tokenizer(folder).get_vocab(),
            sees=sees,
        )
