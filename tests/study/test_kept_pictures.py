"""A kept figure shows what the drawing shows, in fewer bytes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import COLOURS, INK, svg_text
from fedroam.study.kept_pictures import small

SVG = "{http://www.w3.org/2000/svg}"


def drawing() -> str:
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    for k, colour in enumerate(COLOURS):
        axes.plot(range(30), [(k + 1) * x**0.5 / 7 for x in range(30)], color=colour, marker="os^"[k % 3])
    axes.imshow([[0.1, 0.9], [0.4, 0.2]], extent=(0, 5, 0, 1), aspect="auto")
    axes.scatter([], [])  # a group with nothing in it
    axes.fill_between(range(30), 0.5, 1.5, color=COLOURS[0], alpha=0.2)
    axes.text(3, 1, ' a style="fill: red" d="M 1.234 5.678" <g> ', rotation=30, color=INK)
    axes.set_xlabel("from left")
    axes.set_ylabel("upwards")  # turned
    return svg_text(figure, "drawn")


def shapes(svg: str) -> list[dict[str, str]]:
    """All that is drawn, in order: what, its text, its attributes; a style is told whole."""
    root = ElementTree.fromstring(svg)
    sheet = "".join(style.text or "" for style in root.iter(f"{SVG}style")).partition("@media")[0]
    said = dict(re.findall(r"\.(\w+)\{([^}]*)\}", sheet))
    found = []
    for element in root.iter():
        if element.tag in {f"{SVG}{name}" for name in ("path", "use", "text", "rect")}:
            facts = {"what": element.tag, "text": element.text or "", **element.attrib}
            if "d" in facts:
                facts["d"] = absolute(facts["d"])
            facts["style"] = said[facts.pop("class")] if "class" in facts else facts.get("style", "")
            found.append(facts)
    return found


def places(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]


def absolute(path: str) -> str:
    """A path by its places alone: steps (l) are summed up."""
    told, at, mode, start = [], (0.0, 0.0), "", (0.0, 0.0)
    words = iter(re.findall(r"[A-Za-z]|-?(?:\d+\.?\d*|\.\d+)", path))
    for word in words:
        if word.isalpha():
            mode = word
            if word == "z":
                at = start
            told.append({"l": "L"}.get(word, word))
            continue
        x, y = float(word), float(next(words))
        at = (at[0] + x, at[1] + y) if mode == "l" else (x, y)
        start = at if mode == "M" else start
        told += [f"{at[0]:.6f}", f"{at[1]:.6f}"]
    return " ".join(told)


@given(
    st.lists(st.lists(st.tuples(*[st.floats(-999, 999)] * 2), min_size=1, max_size=9), min_size=1, max_size=3)
)
def test_a_path_in_steps_goes_through_the_same_places(parts: list[list[tuple[float, float]]]) -> None:
    """However many there are: each is off by the half of a tenth at most, errors do not add up."""
    path = " z ".join("M " + " L ".join(f"{x:.5f} {y:.5f}" for x, y in part) for part in parts)
    figure = f'<svg a="b"><path d="{path}"/></svg>'
    (shown,) = re.findall(' d="([^"]*)"', small(figure))
    assert places(absolute(shown)) == pytest.approx(places(path), abs=0.0501)


def test_no_two_shapes_have_one_name_and_all_that_are_referred_to_are_there() -> None:
    kept = small(drawing())
    names = re.findall(r' id="([^"]*)"', kept)
    assert len(names) == len(set(names)) > 5
    assert set(re.findall(r"#([a-z]\w*)\b", re.sub("<style>.*?</style>", "", kept))) <= set(names)


def test_every_shape_stays_with_its_style_and_its_place() -> None:
    drawn = drawing()
    kept = small(drawn)
    assert len(kept) < 0.75 * len(drawn)
    pairs = list(zip(shapes(drawn), shapes(kept), strict=True))
    assert len(pairs) > 100
    renamed: dict[str, str] = {}
    for before, after in pairs:
        assert {key for key in before if key != "transform"} == {key for key in after if key != "transform"}
        for key, value in before.items():
            if key in ("d", "x", "y"):
                assert places(after[key]) == pytest.approx(places(value), abs=0.0501)
            elif key.endswith("href") and value.startswith("#"):
                assert renamed.setdefault(value, after[key]) == after[key]
            elif key == "clip-path":
                assert renamed.setdefault(value[4:-1], after[key][4:-1]) == after[key][4:-1]
            elif key == "id":
                assert renamed.setdefault(f"#{value}", f"#{after[key]}") == f"#{after[key]}"
            elif key == "transform" and "rotate(-0" in value:
                assert key not in after
            elif key == "text":
                assert after[key].strip() == value.strip()
            else:
                assert after[key] == value


def test_commands_of_paths_stay() -> None:
    """M, C, Q and z; of lines, which are said once, where there was one is known from the places."""
    for before, after in zip(shapes(drawing()), shapes(small(drawing())), strict=True):
        letters = [re.sub(r"[^MCQz]", "", each.get("d", "")) for each in (before, after)]
        assert letters[0] == letters[1]


def test_each_colour_has_another_on_dark_pages() -> None:
    kept = small(drawing())
    light, dark = kept.split("@media (prefers-color-scheme: dark)")
    for colour in (*COLOURS, INK):
        names = re.findall(rf"\.(\w+)\{{[^}}]*: {colour}[;}}]", light)
        assert names
        for name in names:
            assert re.search(rf"\.{name}\{{[^}}]*#[0-9a-f]{{6}}", dark), (colour, name)
    assert COLOURS[0] not in dark.partition("</style>")[0]


def test_by_hand() -> None:
    drawn = """\
<svg width="9pt" version="1.1">
 <g id="figure_1">
  <g id="line_1" clip-path="url(#p)">
   <path d="M 1.04 2.06
L 3.14159 4
" style="fill: none; stroke: #0072b2"/>
   <path d="M 0.123456 2
C 1 2 3 4.5678 5 6
z
" style="stroke-width: 2"/>
  </g>
  <g id="empty"/>
  <g id="points_that_are_no_numbers" clip-path="url(#p)"/>
  <text x="1.26" y="-0.04" transform="rotate(-0 1.26 -0.04)" style="stroke-width: 2">a &lt;g&gt;</text>
 </g>
</svg>
"""
    assert (
        small(drawn)
        == """\
<svg width="9pt" version="1.1"><style>.a{fill: none; stroke: #0072b2}.b{stroke-width: 2}\
@media (prefers-color-scheme: dark){.a{stroke: #4aa3e0}}</style>
<g clip-path="url(#p)">
<path d="M1 2.1l2.1 1.9" class="a"/>
<path d="M 0.12 2 C 1 2 3 4.57 5 6 z" class="b"/>
</g>
<text x="1.3" y="0" class="b">a &lt;g&gt;</text>
</svg>
"""
    )


def test_there_are_names_for_any_number_of_styles() -> None:
    drawn = "<svg>" + "".join(f'<path style="stroke-width: {k}"/>' for k in range(800)) + "</svg>"
    names = re.findall(r'class="(\w+)"', small(drawn))
    assert names[:2] + names[25:28] + names[701:703] == ["a", "b", "z", "aa", "ab", "zz", "aaa"]
    assert len(set(names)) == 800
