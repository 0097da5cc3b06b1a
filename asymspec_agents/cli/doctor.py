"""`asymspec doctor`: checks an installation, a pair of models or a server, and says what to fix."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..config import from_env
from ..diagnosis.finding import Finding, run_checks
from ..diagnosis.installation import Installation
from ..diagnosis.installation_checks import DEFAULT_PAIR_CHECKS, INSTALLATION_CHECKS
from ..diagnosis.operation_checks import OPERATION_CHECKS
from ..diagnosis.pair import ChosenPair
from ..diagnosis.pair_checks import PAIR_CHECKS
from ..diagnosis.server_checks import SERVER_CHECKS
from ..diagnosis.target import Target
from ..diagnosis.vllm_checks import VLLM_CHECKS
from ..errors import ConfigurationError

__all__ = ["add_parser", "run"]

MARGIN_S = 2.0
LONGEST_TEXT = 600


def add_parser(subparsers: Any) -> None:
    """Adds the `doctor` command to an argparse subparsers object."""
    parser = subparsers.add_parser("doctor", help="check the installation or a server, and say what to fix")
    parser.add_argument("url", nargs="?", metavar="URL", help="a server; without it, the installation")
    for role in ("verifier", "drafter"):
        parser.add_argument(
            f"--{role}",
            metavar="MODEL",
            help="a preset, folder or hub name: whether this pair works together",
        )
    parser.add_argument("--api-key", metavar="KEY", help="the server's key (default: ASYMSPEC_API_KEY)")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="seconds for all checks (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as a JSON list")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Exit code 0, or 1 where a check failed; prints each finding as soon as it is there."""
    with contextlib.ExitStack() as stack:
        if args.url is None:
            findings, secrets = _local(args), []
        elif args.verifier or args.drafter:
            raise ConfigurationError(
                "--verifier and --drafter are models on this machine; the server at URL names its own"
            )
        else:
            api_key = from_env().api_key if args.api_key is None else args.api_key
            server = Target(args.url, api_key, args.timeout)
            stack.callback(server.close)
            findings = run_checks((*SERVER_CHECKS, *OPERATION_CHECKS), server, args.timeout)
            secrets = [api_key or "", *_credentials(args.url)]
        shown = _clean(findings, secrets)
        if args.json:
            done = list(shown)
            print(json.dumps([asdict(finding) for finding in done], indent=2, ensure_ascii=False))
        else:
            done = []
            for finding in shown:
                _print(finding)
                done.append(finding)
    return 1 if any(finding.status == "FAIL" for finding in done) else 0


def _local(args: argparse.Namespace) -> Iterator[Finding]:
    """What the installation and the pair give, in one time limit."""
    if bool(args.verifier) != bool(args.drafter):
        missing = "drafter" if args.verifier else "verifier"
        raise ConfigurationError(f"--{missing} is missing: a pair is a verifier and a drafter")
    end = time.monotonic() + args.timeout
    here = Installation.here(max(1.0, args.timeout - MARGIN_S))
    if not args.verifier:
        yield from run_checks((*INSTALLATION_CHECKS, *VLLM_CHECKS, *DEFAULT_PAIR_CHECKS), here, args.timeout)
        return
    yield from run_checks((*INSTALLATION_CHECKS, *VLLM_CHECKS), here, args.timeout)
    pair = ChosenPair(args.verifier, args.drafter, here.available_bytes)
    yield from run_checks(PAIR_CHECKS, pair, max(1.0, end - time.monotonic()))


def _print(finding: Finding) -> None:
    print(f"{finding.status:<4} {finding.name}: {finding.found}", flush=True)
    if finding.fix is not None:
        print(f"     fix: {finding.fix}", flush=True)


def _credentials(url: str) -> Iterator[str]:
    """A user name and password in an address, which someone may have given by mistake."""
    _, at, _ = url.partition("@")
    if at:
        given = url.rpartition("@")[0].rpartition("//")[2]
        yield given
        yield from given.split(":")


def _clean(findings: Iterable[Finding], secrets: Sequence[str]) -> Iterator[Finding]:
    """The findings as one line each: no secrets, which servers repeat, and nothing that drives a terminal."""
    # Whole words, the longest first: a short key must not blot out parts of other words.
    words_of = sorted({secret for secret in secrets if secret.strip()}, key=len, reverse=True)
    hidden = [re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)") for secret in words_of]

    def line(text: str) -> str:
        for secret in hidden:
            text = secret.sub("***", text)
        words = "".join(
            letter if letter.isprintable() or letter.isspace() else "�" for letter in text
        ).split()
        short = " ".join(words)
        return short if len(short) <= LONGEST_TEXT else f"{short[:LONGEST_TEXT]} …"

    for finding in findings:
        fix = None if finding.fix is None else line(finding.fix)
        yield replace(finding, found=line(finding.found), fix=fix)
