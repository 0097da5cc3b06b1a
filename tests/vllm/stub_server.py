"""vLLM's own application over an engine that answers from a script: everything but the models is real."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.renderers import renderer_from_config
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.input_processor import InputProcessor
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from vllm_asymspec.budget import DrafterShape, Limits, PoolShape
from vllm_asymspec.launch import WORKER_CLASS
from vllm_asymspec.server.start import LIMITS_METHOD

__all__ = ["COUNTS", "Call", "StubEngine", "StubServer", "stub_server"]

MAX_MODEL_LEN = 512
COUNTS = {
    "mode": "asymspec",
    "cached_tokens": {"verifier": 0, "base": 2, "drafter": 3},
    "blocks": 2,
    "drafted": 4,
    "accepted": 1,
    "fused": 2,
    "bonus": 0,
    "accepted_per_position": [1, 0],
    "mean_divergence": 0.25,
    "fallback": None,
}
LIMITS = Limits(
    pool=PoolShape(num_blocks=301, block_size=16, block_bytes=1024),
    drafter=DrafterShape(
        num_layers=2, num_kv_heads=2, head_size=8, bytes_per_value=4, max_positions=1536, vocab_size=272
    ),
    max_model_len=MAX_MODEL_LEN,
    num_draft_tokens=3,
    num_steps_in_flight=1,
    configured_full_len=1400,
)


@dataclass
class Call:
    """One request as the engine gets it."""

    prompt: Mapping[str, Any]
    params: SamplingParams
    kwargs: Mapping[str, Any]
    images: Sequence[Any] = ()

    @property
    def asymspec(self) -> Mapping[str, Any] | None:
        return (self.params.extra_args or {}).get("asymspec")


@dataclass
class StubEngine:
    """vLLM's engine client. `pieces` are the answer; `is_endless`: it never ends."""

    vllm_config: Any
    pieces: Sequence[str] = ("Hello", " world")
    is_endless: bool = False
    calls: list[Call] = field(default_factory=list)
    num_aborted: int = 0
    errored: bool = False

    def __post_init__(self) -> None:
        self.model_config = self.vllm_config.model_config
        self.renderer = renderer_from_config(self.vllm_config)
        self.input_processor = InputProcessor(self.vllm_config, self.renderer)

    def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
        return None

    async def is_tracing_enabled(self) -> bool:
        return False

    async def collective_rpc(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        assert method == LIMITS_METHOD
        return [asdict(LIMITS)]

    async def generate(
        self, prompt: Any, sampling_params: SamplingParams, request_id: str, **kwargs: Any
    ) -> AsyncIterator[RequestOutput]:
        call = Call(prompt, sampling_params, kwargs)
        if isinstance(prompt, EngineCoreRequest):
            ids = {"prompt_token_ids": prompt.prompt_token_ids}
            call = Call(ids, prompt.sampling_params, kwargs, _sent(prompt).mm_features)
        self.calls.append(call)
        tokenizer = self.renderer.tokenizer
        is_delta = sampling_params.output_kind is RequestOutputKind.DELTA
        sent, finished = "", False
        try:
            while not finished:
                for index, piece in enumerate(self.pieces):
                    sent += piece
                    finished = index == len(self.pieces) - 1 and not self.is_endless
                    if is_delta or finished:
                        text = piece if is_delta else sent
                        yield self._output(request_id, call, text, tokenizer.encode(text), finished)
        except GeneratorExit:
            self.num_aborted += 1
            raise

    def _output(
        self, request_id: str, call: Call, text: str, ids: list[int], finished: bool
    ) -> RequestOutput:
        part = CompletionOutput(
            index=0,
            text=text,
            token_ids=ids,
            cumulative_logprob=None,
            logprobs=None,
            finish_reason="stop" if finished else None,
        )
        return RequestOutput(
            request_id,
            None,
            list(call.prompt["prompt_token_ids"]),
            None,
            [part],
            finished,
            num_cached_tokens=4,
            kv_transfer_params={"asymspec": COUNTS} if call.asymspec is not None else None,
        )


def _sent(request: EngineCoreRequest) -> EngineCoreRequest:
    """The request as it comes out of vLLM's own messages between its processes."""
    sent: EngineCoreRequest = MsgpackDecoder(EngineCoreRequest).decode(MsgpackEncoder().encode(request))
    return sent


@dataclass
class StubServer:
    """The application and its engine."""

    app: Any
    engine: StubEngine

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://stub") as client:
            yield client


async def stub_server(verifier: Path, drafter: Path, *flags: str) -> StubServer:
    """vLLM's application with the plugin, over a stub engine for this pair."""
    speculative = {"method": "draft_model", "model": str(drafter), "num_speculative_tokens": 3}
    arguments = [
        *("--model", str(verifier)),
        *("--served-model-name", "pair"),
        *("--speculative-config", json.dumps(speculative)),
        *("--worker-cls", WORKER_CLASS),
        *("--max-model-len", str(MAX_MODEL_LEN)),
        *("--dtype", "float32"),
        "--enforce-eager",
        *flags,
    ]
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
    validate_parsed_serve_args(args)
    engine = StubEngine(AsyncEngineArgs.from_cli_args(args).create_engine_config())
    app = build_app(args, ("generate",), engine.model_config)
    await init_app_state(engine, app.state, args, ("generate",))
    return StubServer(app, engine)
