"""From a model's name to a folder that transformers can load: a local folder, a hub name, or a preset.

Reading order: `presets` (what can be had without a hub), `cache` (where results are kept and when one counts
as whole), `download` (wheels to one checked file), `resolver` (from a name to a folder), `progress`.
"""

from .cache import CachedModel, default_cache_dir, list_models, remove
from .presets import DEFAULT_PAIR, PRESETS, ModelPair, Preset
from .progress import Progress, ProgressCallback, show_progress
from .resolver import ModelFolder, resolve

__all__ = [
    "DEFAULT_PAIR",
    "PRESETS",
    "CachedModel",
    "ModelFolder",
    "ModelPair",
    "Preset",
    "Progress",
    "ProgressCallback",
    "default_cache_dir",
    "list_models",
    "remove",
    "resolve",
    "show_progress",
]
