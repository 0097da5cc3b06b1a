"""What a gateway finds out before it takes calls: whether its upstreams are there, and may be used."""

from __future__ import annotations

from ..errors import ConfigurationError
from ..router import ContextRouter
from .failing import UpstreamError
from .options import GatewayOptions
from .upstream import Upstream

__all__ = ["check_upstreams"]


async def check_upstreams(options: GatewayOptions) -> list[str]:
    """A line about each upstream that cannot be asked now, or that does not speak AsymSpec.

    Raises ConfigurationError for one that does not, where such upstreams are refused: no call would pass.
    """
    notes = []
    named = {} if options.upstream is None else {"the upstream": options.upstream}
    for name, server in {**named, **{f"route {name}": s for name, s in options.routes.items()}}.items():
        upstream = Upstream(server, options, lambda policy, *_: ContextRouter(policy))
        place = f"{name} ({server.base_url})"
        try:
            info = await upstream.info()
        except UpstreamError as error:
            notes.append(f"{place} cannot be used yet: {error.failure.message}")
            continue
        finally:
            await upstream.close()
        if info is None and options.on_plain_upstream == "refuse":
            raise ConfigurationError(
                f"{place} does not speak AsymSpec; start one that does with `asymspec serve`, or say what it "
                "is to be sent: --on-plain-upstream compress (the compressed view alone) or pass (calls as "
                "they are)"
            )
        if info is None:
            notes.append(f"{place} does not speak AsymSpec; calls: {options.on_plain_upstream}")
    return notes
