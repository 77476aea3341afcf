"""A kept figure: an SVG in half the bytes that a plot takes, with a page's dark colours for dark pages.

Everything that it shows stays: texts, shapes in their order, colours, and places to a twentieth of a dot.
"""

from __future__ import annotations

import re
from string import ascii_lowercase

from fedroam.analysis.figures.drawing import COLOURS, GRID, INK, MUTED, PAPER

# A page's dark theme, as in assets/report.css, for figures that a page shows as pictures.
_DARK = dict(
    zip(
        (*COLOURS, INK, MUTED, GRID, PAPER),
        ("#4aa3e0", "#f0803a", "#2cc295", "#dd97bd", "#efb43c", "#8ccdf2", "#e8ebef", "#9da7b3", "#343b45", "#1a1e24"),
        strict=True,
    )
)  # fmt: skip


def small(svg: str) -> str:
    """A drawing as `svg_text` gives it, as it is kept. Styles that many shapes share are said once, as classes."""
    classes: dict[str, str] = {}
    groups: list[bool] = []  # those that are open, outermost first: whether they say anything

    def tag(found: re.Match[str]) -> str:
        if found[0] == "</g>":
            return found[0] if groups.pop() else ""
        plain = re.sub(r'^<g id="[^"]*"', "<g", found[0])  # nothing refers to a group
        if re.match(r"<g\b[^>]*/>", plain):  # as where a line has no point that is a number
            return ""
        if re.match(r"<g\b", plain):
            groups.append(plain != "<g>")
            if not groups[-1]:
                return ""
        plain = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", plain)  # by no angle
        plain = re.sub(r'\b(d|x|y)="([^"]*)"', _near, plain)
        return re.sub(r'\bstyle="([^"]*)"', lambda style: f'class="{_class(style[1], classes)}"', plain)

    shapes = _named_briefly(re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]*>", tag, svg)))
    return re.sub(r"<svg [^>]*>", lambda found: found[0] + _sheet(classes), shapes, count=1)


def _near(found: re.Match[str]) -> str:
    """Places to tenths of a dot, or, of what is round, to hundredths: a marker has three dots across."""
    if found[1] == "d" and not re.search("[CQ]", found[2]):
        return f'd="{_steps(found[2])}"'
    digits = 1 if found[1] != "d" else 2
    places = re.sub(r"-?\d+\.\d+", lambda number: f"{round(float(number[0]), digits) + 0.0:g}", found[2])
    return f'{found[1]}="{re.sub(chr(10), " ", places).strip()}"'


def _steps(path: str) -> str:
    """Straight lines by the steps from point to point, which have fewer digits than places; they sum up exactly.

    Raises ValueError where a path has another command than M, L and z.
    """
    told, last, start, in_steps = "", (0, 0), (0, 0), False
    words = iter(path.split())
    for word in words:
        if word == "z":
            told, last, in_steps = f"{told}z", start, False
        elif word in ("M", "L"):
            # Tenths of a dot, as whole numbers.
            to = (round(10 * float(next(words))), round(10 * float(next(words))))
            if word == "M":
                told, start, in_steps = f"{told}M{_tenths(to[0])} {_tenths(to[1])}", to, False
            else:
                for step in (to[0] - last[0], to[1] - last[1]):
                    before = "l" if not in_steps else "" if step < 0 else " "  # a sign parts numbers, too
                    told, in_steps = f"{told}{before}{_tenths(step)}", True
            last = to
        else:
            raise ValueError(f"a path has {word:.20}, known are M, L and z")
    return told


def _tenths(number: int) -> str:
    """So many tenths as SVG writes them: 1.5, -.3, 12."""
    sign, (whole, tenth) = "-" if number < 0 else "", divmod(abs(number), 10)
    return f"{sign}{whole or ''}.{tenth}" if tenth else f"{sign}{whole}"


def _named_briefly(svg: str) -> str:
    """Markers and frames, which other shapes refer to, by numbers in the order in which they are drawn."""
    found = re.findall(r'<(?:path|clipPath) id="([^"]*)"', svg)
    numbers = {name: f"i{number}" for number, name in enumerate(dict.fromkeys(found))}
    refers = r'(?<=<path id=")[^"]*(?=")|(?<=<clipPath id=")[^"]*(?=")|(?<=href="#)[^"]*(?=")|(?<="url\(#)[^)"]*(?=\)")'
    return re.sub(
        r"<[^>]*>", lambda tag: re.sub(refers, lambda name: numbers.get(name[0], name[0]), tag[0]), svg
    )


def _class(style: str, classes: dict[str, str]) -> str:
    """The class of a style: a, b, ..., z, aa, ab, ... in the order in which they come."""
    if style not in classes:
        number, name = len(classes), ""
        while number >= 0:
            name = ascii_lowercase[number % 26] + name
            number = number // 26 - 1
        classes[style] = name
    return classes[style]


def _sheet(classes: dict[str, str]) -> str:
    """What classes stand for, and what of it differs on a dark page, which those who draw need not know."""
    rules, dark = [], []
    for style, name in classes.items():
        rules.append(f".{name}{{{style}}}")
        other = re.findall(r"\b(fill|stroke): (#[0-9a-f]{6})\b", style)
        changed = [f"{what}: {_DARK[colour]}" for what, colour in other if colour in _DARK]
        if changed:
            dark.append(f".{name}{{{'; '.join(changed)}}}")
    return f"<style>{''.join(rules)}@media (prefers-color-scheme: dark){{{''.join(dark)}}}</style>"
