"""The output of commands, builds and tests, without timestamps, keeps what went wrong wherever it stands."""

# ruff: noqa: E501 (lines as programs and people write them)
from __future__ import annotations

import pytest

from asymspec_agents.compress import AutoCompressor, detect_kind
from asymspec_agents.compress.log import Log
from asymspec_agents.tokens import EstimateCounter

COUNTER = EstimateCounter()
OUTPUTS = {
    "make": [f"[{i}/3000] Building CXX object src/target_{i * 31 % 997}.o" for i in range(3000)],
    "pip": [f"Collecting package{i * 7 % 997}==1.{i}" for i in range(2000)],
    "pytest": [
        f"tests/test_mod{i % 40}.py::test_case_{i} PASSED [{i * 100 // 3000:3}%]" for i in range(3000)
    ],
    "npm": [f"npm http fetch GET 200 https://registry.example.com/p{i} {i % 90}ms" for i in range(2000)],
    "training": [f"step {i} loss {1 / (i + 1):.4f} lr 0.001" for i in range(3000)],
    "apt": [
        line.format(i)
        for i in range(600)
        for line in (
            "Selecting previously unselected package libx{0}.",
            "Preparing to unpack .../libx{0}_1.2_amd64.deb ...",
            "Unpacking libx{0}:amd64 (1.2-3) ...",
            "Setting up libx{0}:amd64 (1.2-3) ...",
        )
    ],
    "varied": [
        f"{verb} {name}.{end} -> build/{name}/{end}{i}.bin"
        for i in range(20)
        for verb in ("CC", "LD", "AR", "GEN", "CP")
        for name in ("alpha", "beta", "gamma", "delta")
        for end in ("c", "h", "s", "x")
    ],
}
FRAMES = "".join(f"\tat org.spring.Frame{i}.invoke(Frame{i}.java:{i})\n" for i in range(60))
FAILURES = {
    "gcc": (
        "src/a.c: In function 'bar':\nsrc/a.c:10:5: error: 'foo' undeclared\n   10 |     foo();",
        ["'foo' undecl", "foo();"],
    ),
    "colour": ("\x1b[31merror\x1b[0m: could not compile `x`", ["could not compile"]),
    "python": (
        "Traceback (most recent call last):\n"
        + "".join(f'  File "/app/m{i}.py", line {i}, in f{i}\n    g({i})\n' for i in range(60))
        + "KeyError: 'tenant_blue'",
        ["KeyError: 'tenant_blue'", "g(59)"],
    ),
    "go": (
        "panic: runtime error: index out of range [5]\n\ngoroutine 18 [running]:\nmain.pick(...)\n\t/src/main.go:17 +0x1d",
        ["index out of range [5]", "/src/main.go:17"],
    ),
    "java": (
        'Exception in thread "main" java.lang.IllegalStateException: cart 77 is closed\n\tat com.acme.Cart.add(Cart.java:42)\n'
        f"{FRAMES}Caused by: java.sql.SQLException: deadlock on table carts\n\tat org.pg.Driver.exec(Driver.java:9)\n"
        "Caused by: java.io.IOException: broken pipe\n\t... 45 more",
        [
            "cart 77 is closed",
            "com.acme.Cart.add",
            "deadlock on table carts",
            "IOException: broken pipe",
            "... 45 more",
        ],
    ),
    "rustc": ("error[E0308]: mismatched types\n --> src/lib.rs:10:5\n  |", ["E0308", "src/lib.rs:10:5"]),
    "rust": (
        "thread 'main' panicked at src/main.rs:4:9:\nattempt to divide by zero",
        ["divide by zero", "main.rs:4:9"],
    ),
    "npm": ("npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE could not resolve peer react@18", ["peer react@18"]),
    "make": ("make: *** [Makefile:12: all] Error 2", ["Makefile:12"]),
    "segv": ("Segmentation fault (core dumped)", ["Segmentation fault"]),
    "denied": ("cp: cannot create regular file '/usr/bin/x': Permission denied", ["Permission denied"]),
    "killed": ("Killed", ["Killed"]),
    "pytest": ("FAILED tests/test_cart.py::test_total - assert 41 == 42", ["assert 41 == 42"]),
    "tap": ("not ok 17 - totals add up", ["not ok 17"]),
    "tsc": ("src/a.ts(3,5): error TS2304: Cannot find name 'foo'.", ["TS2304"]),
    "exit": ("Process completed with exit code 137.", ["exit code 137"]),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_failure_is_kept_wherever_it_stands(output: str, failure: str) -> None:
    told, needed = FAILURES[failure]
    lines = OUTPUTS[output]
    share = (hash((len(output), len(failure))) % 8 + 1) / 10
    at = int(len(lines) * share)
    text = "\n".join([*lines[:at], told, *lines[at:]])
    query = "" if at % 2 else "Build the project and fix what fails"
    made = AutoCompressor().compress(text, query=query, target_tokens=500, counter=COUNTER)
    assert made.kind == "log"
    assert COUNTER.count(made.text) <= 500
    assert [part for part in needed if part not in made.text] == []


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(
            f"The error: in chapter {i} was that nobody had told the crew about it." for i in range(200)
        ),
        "Shall I compare thee\nto a summer's day\nfatal error: none\nthou art more lovely\n" * 30,
        "\n".join(
            ["今天天气很好，我们去公园散步。", "服务器请求已经完成，用户缓存正常。"] * 50 + ["error: 没有"]
        ),
        "We saw this.\n\nTraceback (most recent call last):\nKeyError: 'x'\n\n"
        + "It was late, and they slept.\n" * 60,
        "- first one, an error\n- a second one failed\n- permission denied\n" * 20,
    ],
)
def test_prose_that_mentions_errors_stays_prose(text: str) -> None:
    assert detect_kind(text) == "text"


def test_many_failures_show_the_first_the_one_asked_about_and_the_last() -> None:
    errors = [
        f"src/{name}.c:1:1: error: no member '{name}'"
        for name in (f"m{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600))
    ]
    text = "\n".join(line for pair in zip(errors, OUTPUTS["make"], strict=False) for line in pair)
    made = Log().compress(text, query="what of 'mkk'", target_tokens=500, counter=COUNTER)
    for index in (0, 10 + 26 * 10, 599):
        assert errors[index] in made.text
