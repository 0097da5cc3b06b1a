"""What an engine with a drafter that sees is asked: scenes, through vLLM's own processing of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm_asymspec.config import PluginConfig
from vllm_asymspec.vision import features_of, with_limits

from .engines import Ask, TinyEngine
from .vision_models import Kind, vision_tokenizer
from .vision_oracle import Scene

__all__ = ["Eyes"]


class Eyes:
    """The drafter's processor, as the server makes it."""

    def __init__(self, engine: TinyEngine, kind: Kind) -> None:
        from vllm.multimodal import MULTIMODAL_REGISTRY

        config = engine.llm.llm_engine.vllm_config
        model = with_limits(
            config.speculative_config.draft_model_config, PluginConfig.of(config.additional_config)
        )
        self._kind = kind
        self._processor = MULTIMODAL_REGISTRY.create_processor(model, tokenizer=vision_tokenizer())

    def ask(self, scene: Scene, compressed: Sequence[int], *further: Any, **fields: Any) -> Ask:
        """A request with this full view."""
        return Ask(compressed, scene.ids, *further, images=self.features(scene), **fields)

    def features(self, scene: Scene) -> list[Any]:
        """The scene's images as vLLM carries them; the ids it makes of the scene are the same as ours."""
        if not scene.images:
            return []
        items = self._processor.info.parse_mm_data({"image": list(scene.images)})
        prompt = self._processor(list(scene.written), items)
        assert tuple(prompt["prompt_token_ids"]) == scene.ids
        return features_of(prompt)
