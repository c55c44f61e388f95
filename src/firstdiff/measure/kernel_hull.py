"""The hull of `hull.py` for compiled code: corners in two arrays, one more place than its capacity."""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure.hull import CAPACITY, FIRST_STEP
from firstdiff.measure.kernel_lanes import compiled
from firstdiff.measure.kernel_places import HEIGHTS, LEVEL, LINES, SCALE

_NEAR = 2.0**-20
_SCALE, _HIGHEST = 2.0**60, 2.0**60
_STEEPEST = float(np.finfo(np.float32).max)
_LEAST_SINGLE, _LEAST = 2.0**-150 * _SCALE, 2.0**-1015  # less than the least difference scaled up


@compiled()
def slope(hull_x: np.ndarray, hull_d: np.ndarray, left: int, right: int) -> float:
    """From one corner to another; -1 is the origin."""
    x, d = (hull_x[left], hull_d[left]) if left >= 0 else (0.0, 0.0)
    run = hull_x[right] - x
    return (hull_d[right] - d) / run if run > 0.0 else math.inf


@compiled()
def place_of(hull_x: np.ndarray, corners: int, x: float) -> int:
    """The first corner that is not left of x."""
    low, high = 0, corners
    while low < high:
        middle = (low + high) // 2
        if hull_x[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def height(hull_x: np.ndarray, hull_d: np.ndarray, corners: int, x: float) -> float:
    """The curve at x."""
    if corners == 0:
        return 0.0
    at = place_of(hull_x, corners, x)
    if at == corners:
        return float(hull_d[corners - 1])
    start_x, start_d = (hull_x[at - 1], hull_d[at - 1]) if at > 0 else (0.0, 0.0)
    return float(start_d + slope(hull_x, hull_d, at - 1, at) * (x - start_x))


@compiled()
def insert(hull_x: np.ndarray, hull_d: np.ndarray, corners: int, x: float, d: float) -> int:
    """Put in a point that lies over the curve, and take out the corners that no longer are any."""
    left = place_of(hull_x, corners, x) - 1
    right = left + 1
    while right < corners and hull_d[right] <= d:
        right += 1
    while right + 1 < corners and (hull_d[right] - d) / (hull_x[right] - x) <= slope(hull_x, hull_d, right, right + 1):
        right += 1
    while left >= 0 and (d - hull_d[left]) / (x - hull_x[left]) >= slope(hull_x, hull_d, left - 1, left):
        left -= 1
    place = left + 1
    kept = corners - right
    if right > place:
        for i in range(kept):
            hull_x[place + 1 + i], hull_d[place + 1 + i] = hull_x[right + i], hull_d[right + i]
    else:
        for i in range(kept - 1, -1, -1):
            hull_x[place + 1 + i], hull_d[place + 1 + i] = hull_x[right + i], hull_d[right + i]
    hull_x[place], hull_d[place] = x, d
    return place + 1 + kept


@compiled()
def thin(hull_x: np.ndarray, hull_d: np.ndarray, corners: int, slack: float) -> tuple[int, float]:
    """Back to the capacity, as `Hull` does it; what is left of the corners, and the slack that this costs."""
    step = max(FIRST_STEP, slack / 8.0)
    while corners > CAPACITY:
        kept, dropped = 1, False
        left_x, left_d = hull_x[0], hull_d[0]
        for i in range(1, corners - 1):
            here_x, here_d = hull_x[i], hull_d[i]
            run = hull_x[i + 1] - left_x
            chord = left_d + (hull_d[i + 1] - left_d) / run * (here_x - left_x)
            dropped = not dropped and here_d <= chord * (1.0 + step)
            if not dropped:
                hull_x[kept], hull_d[kept] = here_x, here_d
                kept += 1
            left_x, left_d = here_x, here_d
        hull_x[kept], hull_d[kept] = hull_x[corners - 1], hull_d[corners - 1]
        if kept + 1 < corners:
            slack = (1.0 + slack) * (1.0 + step) - 1.0
            corners = kept + 1
        step *= 2.0
    return corners, slack


@compiled()
def farthest(hull_x: np.ndarray, hull_d: np.ndarray, left: int, right: int) -> tuple[int, float]:
    """The corner that is farthest over the chord between two others, and how often its height; else the left one."""
    place, most = left, 1.0
    for i in range(left + 1, right):
        chord = hull_d[left] + slope(hull_x, hull_d, left, right) * (hull_x[i] - hull_x[left])
        if hull_d[i] > chord * most:
            place, most = i, hull_d[i] / chord
    return place, most


@compiled()
def draw_lines(hull_x: np.ndarray, hull_d: np.ndarray, corners: int, steepest: float, lines: np.ndarray) -> None:
    """The ray of the steepest point, chords over the hull, and its top: the lowest is never over the curve."""
    last = corners - 1
    first, _ = farthest(hull_x, hull_d, 0, last)
    before, low = farthest(hull_x, hull_d, 0, first)
    after, high = farthest(hull_x, hull_d, first, last)
    ends = (0, before, first, last) if low > high else (0, first, after, last)
    lines[0], lines[HEIGHTS], lines[LEVEL] = steepest, 0.0, hull_d[last]
    for chord in range(1, HEIGHTS):
        left, right = ends[chord - 1], ends[chord]
        rise = slope(hull_x, hull_d, left, right) if right > left else 0.0
        lines[chord] = rise
        lines[HEIGHTS + chord] = hull_d[left] - rise * hull_x[left] if right > left else hull_d[last]


@compiled()
def lowest_line(lines: np.ndarray, x: float) -> float:
    """The lowest of the lines at x."""
    lowest = lines[LEVEL]
    for line in range(HEIGHTS):
        lowest = min(lowest, lines[line] * x + lines[HEIGHTS + line])
    return float(lowest)


@compiled()
def in_lane(lines: np.ndarray, lane_lines: np.ndarray) -> None:
    """The lines in the type of the lane, scaled up, and lower by more than rounding can hide; or lines that every
    difference is over, while there is no hull or where they would not fit. All are over 0 but where x is 0.
    """
    lane_lines[SCALE] = _SCALE
    if 0.0 < lines[LEVEL] <= _HIGHEST:
        for place in range(LINES):
            lane_lines[place] = min(lines[place] * ((1.0 - _NEAR) * _SCALE), _STEEPEST)
        return
    least = _LEAST if lane_lines.itemsize == lines.itemsize else _LEAST_SINGLE
    for place in range(LINES):
        lane_lines[place] = least if place >= HEIGHTS else 0.0
    lane_lines[0], lane_lines[HEIGHTS] = _STEEPEST, 0.0
