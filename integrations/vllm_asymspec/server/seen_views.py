"""What a drafter that sees reads: its own template's and processor's work, through vLLM's renderer."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from asymspec_agents.engine.vision.options import VisionOptions

from ..config import PluginConfig
from ..vision import image_processor, sees_images, with_limits
from .compat import ErrorResponse, renderer_from_config
from .pictures import ImageLimits

__all__ = ["SeenViews"]


@dataclass(frozen=True, slots=True)
class SeenViews:
    """Renders what a drafter that sees reads: both views, so that they differ in their content alone.

    `limits` hold for each request. `reads_verifiers`: the drafter's own template has no place for tools, and
    the verifier's, which has one, is written with the drafter's marks for images.
    """

    limits: ImageLimits
    model_config: Any
    renderer: Any
    reads_verifiers: bool

    @classmethod
    def of(cls, vllm_config: Any, verifier_tokenizer: Any) -> SeenViews | None:
        """For a server with this configuration; None if its drafter reads text only.

        Raises ConfigurationError where the drafter's processor can't be made or takes no images.
        """
        if not sees_images(vllm_config):
            return None
        plugin = PluginConfig.of(vllm_config.additional_config)
        config = copy.copy(vllm_config)
        config.model_config = with_limits(vllm_config.speculative_config.draft_model_config, plugin)
        config.model_config.tokenizer = config.model_config.model
        processor = image_processor(config.model_config)
        renderer = renderer_from_config(config)
        options = VisionOptions(max_images=plugin.max_images, max_image_pixels=plugin.max_image_pixels)
        limits = ImageLimits(options, _control(processor))
        hides_tools = _shows_tools(verifier_tokenizer) and not _shows_tools(renderer.tokenizer)
        return cls(limits, config.model_config, renderer, hides_tools)

    async def render(self, stock: Any, request: Any) -> Any:
        """The prompt of a chat request, with its images, or an ErrorResponse.

        `stock` is vLLM's OnlineRenderer for the verifier, which knows the server's settings.
        """
        online = copy.copy(stock)
        online.model_config, online.renderer = self.model_config, self.renderer
        if self.reads_verifiers:
            online.chat_template = stock.chat_template or stock.renderer.tokenizer.chat_template
            online.chat_template_content_format = "string"
        else:
            online.chat_template = None
            online.chat_template_content_format = "auto"
        # The cache of the other kind expects the engine to have one like it, of the verifier's.
        result = await online.render_chat(request, skip_mm_cache=True)
        return result if isinstance(result, ErrorResponse) else result[1][0]


def _shows_tools(tokenizer: Any) -> bool:
    return "tools" in str(tokenizer.chat_template or "")


def _control(processor: Any) -> tuple[str, ...]:
    """The text that stands for an image in a prompt before the processor puts its tokens there."""
    token = getattr(processor.info.get_hf_processor(), "image_token", None)
    return () if token is None else (str(token),)
