"""The project's source read with ast for the architecture tests: its modules, what each imports and where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "asymspec_agents": ROOT / "asymspec_agents",
    "evals": ROOT / "evals",
    "langchain_asymspec": ROOT / "integrations" / "langchain_asymspec",
    "smolagents_asymspec": ROOT / "integrations" / "smolagents_asymspec",
    "vllm_asymspec": ROOT / "integrations" / "vllm_asymspec",
}


@dataclass(frozen=True)
class Import:
    """One imported module, and whether importing the importing module already needs it."""

    target: str
    is_at_import: bool
    line: int


@dataclass(frozen=True)
class Module:
    """One source file by its dotted name."""

    name: str
    path: Path

    @property
    def place(self) -> str:
        """Its path in the repository, for messages."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text("utf-8"), str(self.path))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(self._walk(self.tree, is_at_import=True))

    def _walk(self, node: ast.AST, is_at_import: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, is_at_import, child.lineno)
            elif isinstance(child, ast.ImportFrom):
                base = self._base(child)
                for alias in child.names:
                    whole = f"{base}.{alias.name}"
                    yield Import(whole if whole in modules() else base, is_at_import, child.lineno)
            else:
                is_later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
                yield from self._walk(child, is_at_import and not is_later and not is_for_types)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        parts = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


_modules: dict[str, Module] = {}


def modules() -> dict[str, Module]:
    """Every module of the installed packages by dotted name."""
    if not _modules:
        for package, folder in PACKAGES.items():
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                name = ".".join([package, *(part for part in parts if part != "__init__")])
                _modules[name] = Module(name, path)
    return _modules
