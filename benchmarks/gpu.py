"""Exactness and speed of the reference engine on one GPU, or in small on a CPU: `benchmarks/gpu.sh --help`.

Needs torch and transformers, no model files. Stage 1 compares the cached engine with an uncached loop; stage
2 times Floor, Ceiling, symmetric speculative decoding and AsymSpec with random models of real sizes. Each
stage has a time limit and says where it stopped; results are saved after every line.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from .gpu_exact import Checked
    from .gpu_models import PairShape
    from .gpu_speed import Measured

LIMIT_S = 440.0  # of the 8 minutes that gpu.sh may take
EXACTNESS_SHARE = 0.3  # of the time, at most
COMPRESSED_SHARE = 0.25
PROMPTS, SMALL_PROMPTS = (4096, 8192, 16384), (256, 512)
OUTPUT_TOKENS, SMALL_OUTPUT_TOKENS = 128, 16
EXACT_TOKENS, SMALL_EXACT_TOKENS = 96, 16
EXACT_PROMPT, SMALL_EXACT_PROMPT = 360, 80
SMALL_SETTINGS = 4


class OutOfTimeError(Exception):
    """A stage reached its limit."""


@dataclass
class Session:
    """One run: its clock, where it runs, and what it has found so far."""

    options: argparse.Namespace
    device: torch.device
    started: float
    provenance: dict[str, Any]
    pair: str | None = None
    checked: list[Checked] = field(default_factory=list)
    rows: list[Measured] = field(default_factory=list)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def is_small(self) -> bool:
        """Whether this is the small mode: anything but a CUDA device."""
        return self.device.type != "cuda"

    def say(self, text: str) -> None:
        """Prints a line with the time."""
        print(f"[{self.elapsed_s:6.1f} s] {text}", flush=True)

    def stop_after(self, share: float) -> float:
        """The moment, in seconds since the start, at which that share of the time is gone."""
        return share * float(self.options.limit_s)

    def check(self, until_s: float) -> None:
        """Raises OutOfTimeError once `until_s` has passed."""
        if self.elapsed_s >= until_s:
            raise OutOfTimeError

    def save(self) -> Path:
        """Writes what was found so far; returns the file's path."""
        from .gpu_report import write_json

        path: Path = self.options.out / ("gpu-small.json" if self.is_small else "gpu.json")
        write_json(path, self.provenance, self.pair, self.checked, self.rows)
        return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs both stages; 0 when everything checked was exact and some arm was timed, else 1."""
    started = time.monotonic()
    options = parse_options(arguments)
    import torch  # after --help, and on the clock

    _spare_base_dependencies()
    from .gpu_report import provenance, speed_table

    has_gpu = torch.cuda.is_available()
    is_small = options.small or not has_gpu
    device = torch.device("cpu") if is_small else torch.device("cuda", torch.cuda.current_device())
    session = Session(options, device, started, provenance(device, options.seed))
    if not has_gpu and not options.small:
        session.say("no CUDA device: the small mode on the CPU instead; its times say nothing about a GPU")
    hardware = session.provenance["hardware"]
    session.say(
        f"{hardware.get('gpu', 'CPU')}, torch {torch.__version__}, {session.options.limit_s:.0f} s at most"
    )

    check_settings(session)
    time_pairs(session)

    path = session.save()
    session.say(f"results in {path}")
    num_exact = sum(checked.is_exact for checked in session.checked)
    is_exact = 0 < num_exact == len(session.checked)
    print(f"\nexactness (fp32, {device.type}): {num_exact} of {len(session.checked)} settings exact")
    if session.rows:
        size = "tiny random models" if session.is_small else "random models of Qwen3 sizes"
        print(
            f"speed ({session.pair}, bf16, {size}, drafts accepted with probability {options.acceptance:g}):"
        )
        print(speed_table(session.rows))
    return 0 if is_exact and session.rows else 1


def _spare_base_dependencies() -> None:
    """Where pydantic is missing, imports the engine without the package's public names, which need it."""
    try:
        import pydantic  # noqa: F401
    except ImportError:
        package = types.ModuleType("asymspec_agents")
        package.__path__ = [str(Path(__file__).parents[1] / "asymspec_agents")]
        sys.modules["asymspec_agents"] = package


def check_settings(session: Session) -> None:
    """Stage 1: every setting against the uncached loop, until its share of the time is gone."""
    import torch

    from .gpu_exact import SETTINGS, ExactPair, check_setting
    from .gpu_report import exactness_line

    until_s = session.stop_after(EXACTNESS_SHARE)
    torch.set_float32_matmul_precision("highest")  # no TF32: the point is fp32
    small = session.is_small
    pair = ExactPair.build(session.device, SMALL_EXACT_PROMPT if small else EXACT_PROMPT)
    settings = SETTINGS[:SMALL_SETTINGS] if small else SETTINGS
    session.say(f"stage 1: exactness of {len(settings)} settings, until {until_s:.0f} s at the latest")
    for setting in settings:
        try:
            checked = check_setting(
                pair,
                setting,
                SMALL_EXACT_TOKENS if small else EXACT_TOKENS,
                lambda: session.check(until_s),
            )
        except OutOfTimeError:
            session.say(f"stage 1 stopped at its time limit, before {setting.name} was through")
            return
        session.checked.append(checked)
        session.say(exactness_line(checked))
        session.save()


def time_pairs(session: Session) -> None:
    """Stage 2: the arms with the largest pair that fits; a smaller one where memory runs out all the same."""
    import torch

    for shape in _shapes(session):
        session.pair = shape.name
        try:
            _time_arms(session, shape)
        except torch.OutOfMemoryError:
            session.say(f"{shape.name}: out of memory")
        except OutOfTimeError:
            session.say(f"stage 2 stopped at its limit of {session.stop_after(1):.0f} s")
            return
        if session.rows:
            return
        gc.collect()  # behind the except: its traceback kept the models alive
        if not session.is_small:
            torch.cuda.empty_cache()


def _shapes(session: Session) -> Iterator[PairShape]:
    """The pairs to try, largest first, those that cannot fit left out."""
    import torch

    from .gpu_models import GIB, PAIRS, TINY

    if session.is_small:
        yield TINY
        return
    chosen = session.options.pair
    longest = max(_prompts(session))
    for shape in [PAIRS[chosen]] if chosen else PAIRS.values():
        free, needed = torch.cuda.mem_get_info(session.device)[0], shape.needed_bytes(longest)
        text = (
            f"{shape.name} needs about {needed / GIB:.0f} GiB at {longest:,} tokens; free: {free / GIB:.0f}"
        )
        if needed <= free:
            session.say(f"stage 2: {text}")
            yield shape
        else:
            session.say(f"stage 2: {text}: too large")


def _time_arms(session: Session, shape: PairShape) -> None:
    from .gpu_models import SpeedPair
    from .gpu_speed import SPEED_ARMS, Prompt, measure

    options = session.options
    until_s = session.stop_after(1)
    pair = SpeedPair.build(shape, session.device)
    session.say(f"{shape.name}: built, {shape.weight_bytes / 1e9:.1f} GB of weights")
    num_tokens = options.output_tokens or (SMALL_OUTPUT_TOKENS if session.is_small else OUTPUT_TOKENS)
    for full_tokens in _prompts(session):
        prompt = Prompt.of(full_tokens, COMPRESSED_SHARE, pair.drafter.vocab_size, options.seed)
        for arm in SPEED_ARMS:
            session.check(until_s)
            row = measure(
                pair,
                arm,
                prompt,
                num_tokens,
                options.acceptance,
                options.seed,
                lambda: session.check(until_s),
            )
            session.rows.append(row)
            session.say(
                f"{full_tokens:,} tokens, {arm.name}: first token {row.time_to_first_token_s:.2f} s, "
                f"{row.decode_tokens_per_s:.1f} tokens/s, total {row.total_s:.2f} s"
            )
            session.save()


def _prompts(session: Session) -> list[int]:
    chosen: Sequence[int] = session.options.prompts or (SMALL_PROMPTS if session.is_small else PROMPTS)
    return sorted(set(chosen))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options; leaves the process with a message where one is out of range."""
    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--small", action="store_true", help="tiny models on the CPU, seconds instead of minutes"
    )
    parser.add_argument(
        "--pair", choices=("32B/4B", "14B/1.7B", "8B/0.6B", "1.7B/0.6B"), help="the largest that fits"
    )
    parser.add_argument(
        "--prompts", type=_number(64, 32768), nargs="+", metavar="TOKENS", help="lengths of the full view"
    )
    parser.add_argument(
        "--output-tokens", type=_number(4, 4096), metavar="TOKENS", help="length of the answer"
    )
    parser.add_argument(
        "--acceptance", type=_probability, default=0.9, help="of each draft (default %(default)s)"
    )
    parser.add_argument("--limit-s", type=_number(1, 460), default=LIMIT_S, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    return parser.parse_args(arguments)


def _number(low: int, high: int) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is outside [{low}, {high}]")
        return value

    return number


def _probability(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is outside [0, 1]")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
