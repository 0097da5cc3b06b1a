"""Compressors: pure functions from a content, a query and a target size to a rendition."""

from .auto import AutoCompressor, detect_kind
from .base import Compressor, ContentKind, Rendition
from .headtail import HeadTail
from .tool_docs import signature_schema, signature_text

__all__ = [
    "AutoCompressor",
    "Compressor",
    "ContentKind",
    "HeadTail",
    "Rendition",
    "detect_kind",
    "signature_schema",
    "signature_text",
]
