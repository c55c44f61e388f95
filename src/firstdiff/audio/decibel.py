"""Convert ratios to decibels."""

from __future__ import annotations

import math

BEYOND = 200.0  # what float64 cannot tell from exact


def power_db(over: float, under: float) -> float | None:
    """10 log10 of a ratio of powers; None where both are 0, infinite where one is."""
    if over <= 0 and under <= 0:
        return None
    if under <= 0:
        return math.inf
    if over <= 0:
        return -math.inf
    return 10.0 * (math.log10(over) - math.log10(under))


def level_db(amplitude: float) -> float | None:
    """Relative to 1; None for silence."""
    return 20.0 * math.log10(amplitude) if amplitude > 0 else None


def snr(signal: float, noise: float) -> float | None:
    """Return the SNR in dB: infinite where the noise is within float64 rounding; None for a silent signal."""
    if signal <= 0:
        return None
    found = power_db(signal, noise)
    return math.inf if found is not None and found > BEYOND else found
