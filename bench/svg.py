"""A small SVG writer for line charts: a picture that a document can show without any library.

Steps over a linear x axis and a logarithmic y axis, one colour per group, a legend, and reference lines. It
knows nothing of tuning.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 62, 54
_SIZE = f"viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}'"
_INK, _MUTED, _GRID = "#1f2328", "#656d76", "#e4e7eb"
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
_MOST_TICKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """One line: it holds each y from its x on, until the next, at last until `until`."""

    group: str
    points: Sequence[tuple[float, float]]
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A dashed horizontal line with its words."""

    y: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    x_label: str
    y_label: str
    #: Group to colour, in the order of the legend.
    colours: dict[str, str]
    lines: Sequence[Steps]
    levels: Sequence[Level] = ()


def render(chart: Chart) -> str:
    scale = _Scale.of(chart)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {_SIZE} role='img'>",
        f"<title>{escape(chart.title)}</title>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#ffffff'/>",
        _text(_LEFT, 26, chart.title, size=15, colour=_INK, weight="600"),
        *_legend(chart),
        *_x_axis(chart, scale),
        *_y_axis(chart, scale),
        *(part for level in chart.levels for part in _level(level, scale)),
        *(_steps(line, chart.colours[line.group], scale) for line in chart.lines),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    x_max: float
    y_min: float
    y_max: float

    @classmethod
    def of(cls, chart: Chart) -> "_Scale":
        values = [y for line in chart.lines for _, y in line.points] + [level.y for level in chart.levels]
        x_max = max((line.until for line in chart.lines), default=1.0)
        return cls(x_max=x_max * 1.02, y_min=min(values) / 1.12, y_max=max(values) * 1.12)

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / self.x_max

    def y(self, value: float) -> float:
        share = math.log(value / self.y_min) / math.log(self.y_max / self.y_min)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share


def linear_ticks(high: float) -> list[float]:
    """From 0 to at most `high`, at a step of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(high / _MOST_TICKS))
    step = next(power * unit for unit in (1, 2, 5, 10) if high / (power * unit) <= _MOST_TICKS)
    return [step * index for index in range(int(high / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two; few where they span much."""
    for units in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [unit * 10.0**power for power in powers for unit in units]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= _MOST_TICKS:
            return ticks
    return ticks


def _x_axis(chart: Chart, scale: _Scale) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = [f"<line x1='{_LEFT}' y1='{bottom}' x2='{_WIDTH - _RIGHT}' y2='{bottom}' stroke='{_MUTED}'/>"]
    parts += [
        _text(scale.x(tick), bottom + 18, f"{tick:g}", anchor="middle") for tick in linear_ticks(scale.x_max)
    ]
    return [*parts, _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, chart.x_label, anchor="middle")]


def _y_axis(chart: Chart, scale: _Scale) -> list[str]:
    parts = []
    for tick in log_ticks(scale.y_min, scale.y_max):
        y = scale.y(tick)
        parts.append(
            f"<line x1='{_LEFT}' y1='{y:.1f}' x2='{_WIDTH - _RIGHT}' y2='{y:.1f}' stroke='{_GRID}'/>"
        )
        parts.append(_text(_LEFT - 8, y + 4, f"{tick:,g}", anchor="end"))
    return [*parts, _text(_LEFT, _TOP - 12, chart.y_label)]


def _legend(chart: Chart) -> list[str]:
    parts: list[str] = []
    right = float(_WIDTH - _RIGHT)
    for group, colour in reversed(chart.colours.items()):
        right -= 7.2 * len(group)
        parts.append(_text(right, _TOP - 12, group, colour=_INK))
        parts.append(
            f"<line x1='{right - 26:.1f}' y1='{_TOP - 16}' x2='{right - 6:.1f}' y2='{_TOP - 16}' "
            f"stroke='{colour}' stroke-width='3'/>"
        )
        right -= 46
    return parts


def _level(level: Level, scale: _Scale) -> list[str]:
    y = scale.y(level.y)
    right = _WIDTH - _RIGHT
    place = f"x1='{_LEFT}' y1='{y:.1f}' x2='{right}' y2='{y:.1f}'"
    return [
        f"<line {place} stroke='{_MUTED}' stroke-dasharray='5 4'/>",
        _text(_LEFT + 6, y - 6, level.text),
    ]


def _steps(line: Steps, colour: str, scale: _Scale) -> str:
    path = ""
    for x, y in line.points:
        move = f"H{scale.x(x):.1f}V{scale.y(y):.1f}" if path else f"M{scale.x(x):.1f} {scale.y(y):.1f}"
        path += move
    path += f"H{scale.x(line.until):.1f}"
    dots = "".join(
        f"<circle cx='{scale.x(x):.1f}' cy='{scale.y(y):.1f}' r='2.6' fill='{colour}'/>"
        for x, y in line.points
    )
    return (
        f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='2' stroke-linejoin='round' "
        f"stroke-opacity='0.8'/>{dots}"
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    colour: str = _MUTED,
    anchor: str = "start",
    weight: str = "400",
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{size}' font-weight='{weight}' fill='{colour}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )
