"""The options of suites whose agents use the web: a cassette, and whether and where to ask what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asymspec_agents.errors import ConfigurationError

from .cassettes import Cassette, CassetteMode
from .settings import WEB_OPTIONS
from .web import DdgsSearch, JsonSearch, PageReader, SearchEngine, Web

__all__ = ["WebOptions"]

_MODES: dict[str, CassetteMode] = {
    "replay": "replay",
    "record-missing": "record-missing",
    "record": "record",
}


@dataclass(frozen=True, slots=True)
class WebOptions:
    """A run's cassette, and what may be asked live (None: nothing)."""

    cassette: Cassette
    live: Web | None

    @classmethod
    def of(cls, suite: str, options: Mapping[str, str]) -> WebOptions:
        """What the options say. Raises ConfigurationError naming what is missing or contradicts itself."""
        for name in options:
            if name not in WEB_OPTIONS:
                raise ConfigurationError(
                    f"option {name!r} is unknown to suite {suite}; its options: {', '.join(WEB_OPTIONS)}"
                )
        online = options.get("online", "false").strip().lower()
        if online not in ("true", "false"):
            raise ConfigurationError(f"online={options['online']!r} must be true or false")
        is_online = online == "true"
        given = options.get("mode", "record-missing" if is_online else "replay").strip()
        if given not in _MODES:
            raise ConfigurationError(f"mode={given!r} must be one of {', '.join(_MODES)}")
        mode = _MODES[given]
        path = options.get("cassette", "").strip()
        if not path:
            raise ConfigurationError(
                f"suite {suite} needs a cassette of the web: --option cassette=PATH to replay one, and "
                "--option online=true to record what it does not hold"
            )
        if mode != "replay" and not is_online:
            raise ConfigurationError(f"mode={given!r} asks the web: say so by --option online=true")
        live = Web(_engine(options), PageReader()) if mode != "replay" else None
        return cls(Cassette(Path(path), mode), live)


def _engine(options: Mapping[str, str]) -> SearchEngine:
    search = options.get("search", "ddgs").strip()
    if search == "ddgs":
        return DdgsSearch()
    key_file = options.get("search_key_file", "").strip()
    if not key_file:
        return JsonSearch(search)
    try:
        key = Path(key_file).read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"search_key_file={key_file!r} cannot be read ({error})") from error
    return JsonSearch(search, {options.get("search_header", "Authorization").strip(): key})
