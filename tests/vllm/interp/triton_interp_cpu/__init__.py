"""A Triton backend in name only: with TRITON_INTERPRET=1 every kernel runs in Triton's interpreter.

vLLM asks for a backend called `cpu` before it takes its second model runner on a machine without a GPU.
"""

from __future__ import annotations
