"""Colours of charts and states, as eyes see them that lack one kind of cone; in both themes.

Matrices: Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB. Distances: CIE 1976, in Lab.
"""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import services.dashboard

STYLE = (Path(services.dashboard.__file__).parent / "static" / "style.css").read_text()
EYES = {
    "all cones": np.eye(3),
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])
#: Two that differ by less look alike beside each other.
LEAST = 15.0
TOLD_APART = [f"s{n}" for n in range(9)]


def colours(theme: int) -> dict[str, np.ndarray]:
    """Linear RGB by name; theme 0 is light, 1 is dark."""
    found = re.findall(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\)", STYLE)
    return {name: linear(pair[theme]) for name, *pair in found}


def linear(text: str) -> np.ndarray:
    value = np.array([int(text[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(colour: np.ndarray) -> np.ndarray:
    part = XYZ @ np.clip(colour, 0, 1) / WHITE
    f = np.where(part > 0.008856, np.cbrt(part), 7.787 * part + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", [pytest.param(0, id="light"), pytest.param(1, id="dark")])
@pytest.mark.parametrize("eyes", EYES)
def test_no_two_colours_of_a_chart_look_alike(theme: int, eyes: str):
    seen = {name: lab(np.array(EYES[eyes]) @ colour) for name, colour in colours(theme).items()}
    for one, other in [
        *itertools.combinations(TOLD_APART, 2),
        ("ok", "bad"),
        ("ok", "open"),
        ("bad", "open"),
    ]:
        assert np.linalg.norm(seen[one] - seen[other]) > LEAST, (one, other)
