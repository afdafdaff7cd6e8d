"""How the latencies of a search lie: a histogram on a logarithmic axis, of every trial. Pure."""

import math
from collections.abc import Sequence

BINS = 30


def histogram(latencies_secs: Sequence[float], *, bins: int = BINS) -> list[dict[str, float]]:
    """Bins of equal width in log10: from_secs (within), to_secs (without, save in the last), trials."""
    logs = [math.log10(secs) for secs in latencies_secs if secs > 0]
    if not logs:
        return []
    low, width = min(logs), (max(logs) - min(logs)) / bins or 1.0 / bins
    counts = [0] * bins
    for each in logs:
        counts[min(bins - 1, int((each - low) / width))] += 1
    return [
        {"from_secs": 10 ** (low + n * width), "to_secs": 10 ** (low + (n + 1) * width), "trials": count}
        for n, count in enumerate(counts)
    ]
