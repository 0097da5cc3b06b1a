"""The official checkers of bfcl-eval beside ours: loaded from their files, what they import stood in for."""

from __future__ import annotations

import enum
import types
from functools import cache
from typing import Any

from tests.evals.references import load_module

__all__ = ["official_mentions", "official_tools", "official_verdict"]


class Language(enum.Enum):
    JAVA = "java"
    JAVASCRIPT = "javascript"
    PYTHON = "python"


class _Handled:
    underscore_to_dot = True


class _Models(dict[str, type]):
    def __missing__(self, key: str) -> type:
        return _Handled


def _module(name: str, **names: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(names)
    return module


@cache
def _ast_checker() -> types.ModuleType:
    package, checker = "bfcl_eval", "bfcl_eval.eval_checker"
    convertor = f"{checker}.ast_eval.type_convertor"
    stood_in = [
        _module(package),
        _module(f"{package}.constants"),
        _module(f"{package}.constants.enums", Language=Language),
        _module(f"{package}.constants.model_config", MODEL_CONFIG_MAPPING=_Models()),
        _module(f"{package}.constants.type_mappings", JAVA_TYPE_CONVERSION={}, JS_TYPE_CONVERSION={}),
        _module(checker),
        _module(f"{checker}.ast_eval"),
        _module(convertor),
        _module(f"{convertor}.java_type_converter", java_type_converter=None),
        _module(f"{convertor}.js_type_converter", js_type_converter=None),
    ]
    path = "bfcl_eval/eval_checker/ast_eval/ast_checker.py"
    return load_module(path, **{module.__name__: module for module in stood_in})


def official_verdict(category: str, functions: Any, answer: Any, expected: Any) -> bool | None:
    """The verdict of the official AST checker; None where it ends with an exception."""
    try:
        result = _ast_checker().ast_checker(functions, answer, expected, Language.PYTHON, category, "any")
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    return bool(result["valid"])


@cache
def _agentic_checker() -> types.ModuleType:
    return load_module("bfcl_eval/eval_checker/agentic_eval/agentic_checker.py")


def official_mentions(answer: str, allowed: list[str]) -> bool:
    """The verdict of the official checker of memory questions."""
    return bool(_agentic_checker().agentic_checker(answer, allowed)["valid"])


@cache
def _handler_utils() -> types.ModuleType:
    package, parsers = "bfcl_eval", "bfcl_eval.model_handler.parser"
    enums = load_module("bfcl_eval/constants/enums.py")
    mappings = load_module("bfcl_eval/constants/type_mappings.py")
    unused = {
        f"{parsers}.java_parser": ("parse_java_function_call",),
        f"{parsers}.js_parser": ("parse_javascript_function_call",),
        f"{parsers}.json_parser": ("parse_json_function_call",),
        f"{parsers}.xml_parser": ("parse_concise_xml_function_call", "parse_verbose_xml_function_call"),
        "tenacity": ("retry_if_exception_message", "retry_if_exception_type", "wait_random_exponential"),
    }
    stood_in = {
        **{name: _module(name) for name in (package, f"{package}.constants", f"{package}.utils")},
        **{name: _module(name) for name in (f"{package}.model_handler", parsers)},
        f"{package}.constants.default_prompts": _module("default_prompts"),
        f"{package}.constants.enums": enums,
        f"{package}.constants.type_mappings": mappings,
        **{name: _module(name, **dict.fromkeys(names)) for name, names in unused.items()},
    }
    stood_in["tenacity"].__dict__["retry"] = lambda **_: lambda function: function
    utils = load_module("bfcl_eval/model_handler/utils.py", **stood_in)
    utils.__dict__.update(mapping=mappings.GORILLA_TO_OPENAPI, style=enums.ModelStyle.OPENAI_COMPLETIONS)
    return utils


def official_tools(functions: list[dict[str, Any]]) -> Any:
    """The functions as the official handler of OpenAI's API sends them."""
    utils = _handler_utils()
    return utils.convert_to_tool(functions, utils.mapping, utils.style)
