"""LLMLingua-2: a token classifier says of every word of a text whether it is needed.

Pan et al., "LLMLingua-2: Data Distillation for Efficient and Faithful Task-Agnostic Prompt Compression"
(2024). `LLMLingua2` runs the published checkpoints itself, `LLMLinguaPackage` through the llmlingua package;
both render what they keep as pieces of the original. Reading order: `words` and `chunks` (a text to chunks,
words and ids), `checkpoint` (the model), `classifier` (one thread, batches, cache), `threshold` (which words
stay), `protection` (which stay whatever it says), `rendition` (from words to text, within the target),
`runner` and `package` (the two compressors).
"""

from ...errors import MissingDependencyError as _MissingDependencyError

try:
    import numpy as _numpy  # noqa: F401
    import torch as _torch  # noqa: F401
    import transformers as _transformers  # noqa: F401
except ImportError as error:
    raise _MissingDependencyError(error.name or "torch", "engine") from error

from .package import LLMLinguaPackage
from .protection import Protection, nothing_protected
from .runner import LLMLingua2

__all__ = ["LLMLingua2", "LLMLinguaPackage", "Protection", "nothing_protected"]
