"""Divisors of a whole number, for cures and stage choices."""

from __future__ import annotations


def divisors(number: int) -> list[int]:
    """Divisors of a positive number, ascending."""
    low = [x for x in range(1, int(number**0.5) + 1) if number % x == 0]
    return sorted({*low, *(number // x for x in low)})


def largest_divisor(number: int, at_most: int) -> int:
    """Largest divisor of `number` that is not above `at_most`; 1 where none is."""
    return max((x for x in divisors(max(number, 1)) if x <= at_most), default=1)
