"""Bootstrap intervals of whatever is a function of means: samples are drawn, and with them all their columns.

Where samples come in clusters (several questions on one text), whole clusters are drawn, so that an interval
does not take what belongs together for independent. Draws depend on the number of clusters and a seed only.
Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 (percentile) and 14 (BCa).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

from .estimate import LEVEL, Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["bootstrap", "mean_difference", "mean_estimate", "mean_ratio", "resampled"]

_MOST_COUNTS = 10_000_000  # held at a time, in 8 bytes each


def mean_estimate(values: Sequence[float], clusters: Sequence[str] | None = None) -> Estimate:
    """The mean with its BCa interval."""
    return bootstrap([values], lambda means: means[0], clusters=clusters)


def mean_difference(
    left: Sequence[float], right: Sequence[float], clusters: Sequence[str] | None = None
) -> Estimate:
    """The mean of left − right over pairs, with its BCa interval; none where all pairs differ alike."""
    differences = [a - b for a, b in zip(left, right, strict=True)]
    found = bootstrap([differences], lambda means: means[0], clusters=clusters)
    if found.num and not any(differences):
        return Estimate(0.0, None, None, found.num, "every pair ties")
    return found


def mean_ratio(
    left: Sequence[float], right: Sequence[float], clusters: Sequence[str] | None = None
) -> Estimate | None:
    """The ratio of the means over pairs, with its percentile interval; None where right sums to nothing."""
    if sum(right) <= 0:
        return None
    return bootstrap([left, right], _ratio, clusters=clusters, method="percentile")


def _ratio(means: Array) -> Array:
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Array = np.where(means[1] > 0, means[0] / means[1], np.inf)
    return ratio


def bootstrap(
    columns: Sequence[Sequence[float]],
    statistic: Callable[[Any], Any],
    *,
    clusters: Sequence[str] | None = None,
    method: str = "bca",
    num_resamples: int | None = None,
    seed: int = 0,
) -> Estimate:
    """A statistic of the columns' means, with its interval.

    `columns[c][i]` is sample i's value in column c. `statistic` maps means `[columns, ...]` to `[...]`.
    There is no interval with fewer than two clusters, or where no draw differs from the others. Raises
    ConfigurationError for no samples, columns of several lengths, or an unknown method.
    """
    if method not in ("bca", "percentile"):
        raise ConfigurationError(f"method={method!r} is unknown; methods: bca, percentile")
    sums, sizes = _by_cluster(columns, clusters)
    import numpy as np

    value = float(statistic(sums.sum(axis=1) / sizes.sum()))
    num = int(sizes.sum())
    if len(sizes) < 2:
        return Estimate(value, None, None, num, "one sample" if num == 1 else "one cluster")
    draws = statistic(_draw(sums, sizes, num_resamples, seed))
    if np.allclose(draws, draws[0], rtol=1e-12, atol=1e-12):
        return Estimate(value, None, None, num, "every draw is the same")
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    if method == "bca":
        left_out = (sums.sum(axis=1, keepdims=True) - sums) / (sizes.sum() - sizes)
        tails = _corrected(tails, value, draws, statistic(left_out))
    # Nearest draws, not between two of them: a draw may be infinite.
    low, high = (float(np.quantile(draws, tail, method="nearest")) for tail in tails)
    return Estimate(value, low, high, num)


def resampled(
    columns: Sequence[Sequence[float]],
    clusters: Sequence[str] | None = None,
    num_resamples: int | None = None,
    seed: int = 0,
) -> Array:
    """Means of the columns over drawn samples, `[columns, resamples]`."""
    return _draw(*_by_cluster(columns, clusters), num_resamples, seed)


def _by_cluster(columns: Sequence[Sequence[float]], clusters: Sequence[str] | None) -> tuple[Array, Array]:
    """Sums of each column by cluster, and the clusters' sizes."""
    try:
        import numpy as np
    except ImportError:
        raise MissingDependencyError("numpy", "compress") from None

    values = np.asarray(columns, dtype=np.float64) if len({len(c) for c in columns}) == 1 else None
    if values is None or values.shape[1] == 0:
        raise ConfigurationError(
            f"columns of {[len(c) for c in columns]} values must be of one length above 0"
        )
    if clusters is None:
        return values, np.ones(values.shape[1])
    if len(clusters) != values.shape[1]:
        raise ConfigurationError(f"clusters: {len(clusters)} names for {values.shape[1]} samples")
    places = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    index = np.array([places[name] for name in clusters])
    sums: Array = np.stack([np.bincount(index, column, len(places)) for column in values]).astype(np.float64)
    return sums, np.bincount(index, minlength=len(places)).astype(np.float64)


def _draw(sums: Array, sizes: Array, num_resamples: int | None, seed: int) -> Array:
    """Means of drawn clusters, `[columns, resamples]`."""
    import numpy as np

    num = len(sizes)
    total = num_resamples or max(2_000, min(10_000, _MOST_COUNTS // num))
    size = max(1, _MOST_COUNTS // num)
    parts = []
    for chunk, start in enumerate(range(0, total, size)):
        counts = _counts(num, min(size, total - start), seed, chunk)
        parts.append((counts @ sums.T / (counts @ sizes)[:, None]).T)
    means: Array = np.concatenate(parts, axis=1)
    return means


@lru_cache(maxsize=2)
def _counts(num: int, num_resamples: int, seed: int, chunk: int) -> Array:
    """How often each cluster is drawn, `[resamples, clusters]`; the same for all arms on the same samples."""
    import numpy as np

    drawn = np.random.default_rng((seed, chunk)).integers(0, num, (num_resamples, num))
    places = drawn + num * np.arange(num_resamples)[:, None]
    counts: Array = np.bincount(places.ravel(), minlength=num * num_resamples).astype(np.float64)
    return counts.reshape(num_resamples, num)


def _corrected(
    tails: tuple[float, float], value: float, draws: Array, left_out: Array
) -> tuple[float, float]:
    """BCa's tails: corrected for bias (share of draws below the value) and acceleration (jackknife)."""
    import numpy as np

    normal = NormalDist()
    below = float((np.sum(draws < value) + np.sum(draws <= value)) / (2 * len(draws)))
    if not 0 < below < 1:
        return tails
    bias = normal.inv_cdf(below)
    off = left_out.mean() - left_out
    spread = float((off**2).sum()) ** 1.5
    acceleration = float((off**3).sum()) / (6 * spread) if spread > 0 else 0.0
    shifted = [bias + normal.inv_cdf(tail) for tail in tails]
    low, high = (normal.cdf(bias + z / (1 - acceleration * z)) for z in shifted)
    return (low, high) if low < high else tails
