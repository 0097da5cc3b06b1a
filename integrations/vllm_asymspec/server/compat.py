"""Everything the server part takes from vLLM; the one place to look at when vLLM changes its server.

Source: vLLM 0.32, `vllm/entrypoints`; 0.33 has the same signatures.
"""

from __future__ import annotations

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest, ChatCompletionResponse
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.protocol import CompletionRequest, CompletionResponse
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.entrypoints.serve.utils.api_utils import load_aware_call, validate_json_request, with_cancellation
from vllm.entrypoints.serve.utils.orca_metrics import metrics_header
from vllm.entrypoints.serve.utils.sse_keep_alive import with_sse_keep_alive
from vllm.renderers import TokenizeParams, renderer_from_config
from vllm.sampling_params import SamplingParams

__all__ = [
    "ChatCompletionRequest",
    "ChatCompletionResponse",
    "CompletionRequest",
    "CompletionResponse",
    "ErrorResponse",
    "OpenAIServingChat",
    "OpenAIServingCompletion",
    "SamplingParams",
    "TokenizeParams",
    "load_aware_call",
    "metrics_header",
    "renderer_from_config",
    "validate_json_request",
    "with_cancellation",
    "with_sse_keep_alive",
]
