"""How sizes are drawn at random, and what a kind of drawn functions is."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bench.suite import Build

_Choice = TypeVar("_Choice")


class Dice:
    """Draws sizes: the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def extent(self, least: int, most: int) -> int:
        """Log-uniform; every other one has few significant bits, as most of a model's have."""
        value = round(math.exp(self._random.uniform(math.log(least), math.log(most))))
        if self._random.random() < 0.5:
            grain = 1 << max(0, value.bit_length() - 3)
            value = round(value / grain) * grain
        return min(max(value, least), most)

    def of(self, *choices: _Choice) -> _Choice:
        return self._random.choice(choices)


@dataclass(frozen=True, slots=True)
class Kind:
    draw: Callable[[Dice], tuple[int, ...]]
    #: Takes what is drawn.
    build: Callable[..., Build]


def image(dice: Dice) -> tuple[int, int]:
    """Rows and columns: most images are square."""
    rows = dice.extent(5, 120)
    return rows, dice.of(rows, rows, dice.extent(5, 120))
