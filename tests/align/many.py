"""Thousands of random layouts: `python -m tests.align.many 2000`."""

from __future__ import annotations

import sys
import time

from firstdiff.align.solver import solve
from firstdiff.trace import ArraySource
from tests.align.cases import agreement, is_right, random_case, shuffled_case


def main(count: int) -> int:
    start = time.perf_counter()
    missed: list[str] = []
    wrong: list[str] = []
    for seed in range(count):
        case = random_case(seed)
        solution = solve(ArraySource(case.reference), ArraySource(case.candidate))
        if not is_right(solution, case):
            missed.append(f"{seed}: {case} -> {solution.alignment} fits {solution.fits}")
            if solution.fits and agreement(solution, case) < 1.0:
                wrong.append(missed[-1])
        shuffled = shuffled_case(seed)
        false = solve(ArraySource(shuffled.reference), ArraySource(shuffled.candidate))
        if false.fits and agreement(false, shuffled) < 1.0:
            wrong.append(f"{seed}: {shuffled} -> {false.alignment}")
    for line in missed + wrong:
        print(line)
    took = time.perf_counter() - start
    print(f"{count - len(missed)} of {count} found ({1 - len(missed) / count:.2%}), {len(wrong)} wrong, {took:.0f} s")
    return int(len(missed) > 0.01 * count or bool(wrong))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
