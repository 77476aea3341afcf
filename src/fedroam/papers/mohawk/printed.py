"""What the tables of Farcas et al. print for a claim, in words for its card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedroam.papers.mohawk.runs import BASELINES, DATA, K2, METHODS, SPLITS
from fedroam.papers.mohawk.tables import (
    ACCESS_POINTS,
    GAIN,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_5_DISTANCE,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    TABLE_9,
)
from fedroam.study.items import Table

_EVERY_K2 = f"k2 = {', '.join(map(str, K2))}"
# Of its prototype, which is no table of this study.
WASTED = (
    "Table 10, of the prototype, training included: 42 ± 23 J a device against 94 ± 39 J of HierFAVG on MNIST, 243 ± "
    "130 J against 475 ± 112 J on CIFAR-10; in all 2.56 and 2.47 times less"
)


def rounds(data: str) -> str:
    """Rounds to the threshold, by Table 4."""
    return _everywhere(TABLE_4, data, "rounds")


def energy(data: str) -> str:
    """Energy to the threshold, by Table 6."""
    return _everywhere(TABLE_6, data, "J")


def times_fewer(data: str, split: str, k2: int) -> str:
    """How many times the rounds of MOHAWK the baselines need, and the rounds, by Table 4."""
    gain, own, *others = (_number(TABLE_4, data, split, m, k2) for m in (GAIN, "mohawk", *BASELINES))
    return f"Table 4: {gain:g} times, {' and '.join(f'{each:g}' for each in others)} rounds against {own:g}"


def lead(data: str, split: str) -> str:
    """The same for each k2."""
    return f"Table 4, {_EVERY_K2}: {_by_k2(TABLE_4, data, split, GAIN)} times"


def accuracies(data: str, split: str) -> str:
    """Accuracy of all methods with one split, by Table 3."""
    return f"Table 3, {_EVERY_K2}: {_against(TABLE_3, data, split, '%')}"


def accuracy_by_k2(data: str, *methods: str) -> str:
    """Accuracy with each split, of MOHAWK alone or of these methods, by Table 3."""
    told = [
        f"{f'{METHODS[method]}, ' * bool(methods)}{SPLITS[split][0]} {_by_k2(TABLE_3, data, split, method)} %"
        for method in methods or ("mohawk",)
        for split in SPLITS
    ]
    return f"Table 3, {_EVERY_K2}: {'; '.join(told)}"


def least_lead(data: str) -> str:
    """Where MOHAWK is least ahead of a baseline in Table 3."""
    least, own, other, place = min(
        (own - other, own, other, f"{METHODS[rival]}, {SPLITS[split][0]}, k2 = {k2}")
        for split in SPLITS
        for k2 in K2
        for rival in BASELINES
        for own in [_number(TABLE_3, data, split, "mohawk", k2)]
        for other in [_number(TABLE_3, data, split, rival, k2)]
    )
    return f"Table 3, at the least: {own:g} % against {other:g} % ({place}), so {_signed(least)} points"


def cost_of_non_iid(data: str, k2: int) -> str:
    """What non-IID data cost: of CIFAR-10 as Sec. 4.2 has it, and by differences of Table 3, which are others."""
    own, *others = (
        _signed(_number(TABLE_3, data, "iid", m, k2) - _number(TABLE_3, data, "non-iid", m, k2))
        for m in ("mohawk", *BASELINES)
    )
    text = "Sec. 4.2: 4.77% against 7.89% (HierFAVG) and 7.73% (MACFL); " * ((data, k2) == ("cifar10", 2))
    return f"{text}Table 3, by its differences: {own} points against {_of_baselines(others)}"


def dropped(split: str, methods: Iterable[str]) -> str:
    """What the most access points instead of the fewest cost on CIFAR-10, by Table 9."""
    few, *_, many = ACCESS_POINTS
    told = []
    for method in methods:
        ends = [
            TABLE_9.printed(f"{SPLITS[split][0]}, {n:,} access points", METHODS[method]) for n in (few, many)
        ]
        told.append(f"{METHODS[method]} from {ends[0]:g} to {ends[1]:g} %, so {ends[0] - ends[1]:.2f} points")
    return f"Table 9: {'; '.join(told)}"


def by_batch(data: str) -> str:
    """Accuracy by batch size, by Table 7."""
    sizes = (64, 32, 16, 8)
    told = [
        f"{label} {_listed([TABLE_7.printed(DATA[data], f'{label}, batch {size}') for size in sizes])} %"
        for label, _ in SPLITS.values()
    ]
    return f"Table 7, batches of {_listed(sizes)}: {'; '.join(told)}"


def by_epochs(data: str) -> str:
    """Accuracy by local epochs: means of Table 8 over k2 and splits, which the paper does not print."""
    told = []
    for k1 in (1, 5, 10):
        row = f"{DATA[data]}, k1 = {k1}"
        numbers = [TABLE_8.printed(row, f"{label}, k2 = {k2}") for label, _ in SPLITS.values() for k2 in K2]
        told.append(f"{sum(numbers) / len(numbers):.2f} % (k1 = {k1})")
    return f"Table 8, means of its rows: {', '.join(told)}"


def included() -> str:
    """Devices that are aggregated, by Table 5."""
    before, now = (
        _listed([TABLE_5.printed(f"k2 = {k2}", head) for k2 in K2])
        for head in ("HierFAVG and MACFL", "MOHAWK")
    )
    return f'Table 5, {_EVERY_K2}: {now} devices against {before}; "up to 39.78% more devices"'


def distances() -> str:
    """How far devices are from their access points, by Table 5."""
    rows = ("mean", "standard deviation")
    own, *others = (
        " ± ".join(f"{TABLE_5_DISTANCE.printed(row, METHODS[m]):g}" for row in rows)
        for m in ("mohawk", *BASELINES)
    )
    gain = TABLE_5_DISTANCE.printed("mean", "Average improvement")
    return f"Table 5: {own} km against {_of_baselines(others)}, {gain:g} times"


def _number(table: Table, data: str, split: str, method: str, k2: int) -> float:
    """What tables 3, 4 and 6 print."""
    word = METHODS.get(method, "average improvement")
    return table.printed(f"{DATA[data]}, {word}", f"{SPLITS[split][0]}, k2 = {k2}")


def _by_k2(table: Table, data: str, split: str, method: str) -> str:
    return _listed([_number(table, data, split, method, k2) for k2 in K2])


def _against(table: Table, data: str, split: str, unit: str) -> str:
    """`IID 12, 20, 30 rounds against 46, 50, 70 (HierFAVG) and 42, 45, 50 (MACFL)`."""
    own, *others = (_by_k2(table, data, split, m) for m in ("mohawk", *BASELINES))
    return f"{SPLITS[split][0]} {own} {unit} against {_of_baselines(others)}"


def _everywhere(table: Table, data: str, unit: str) -> str:
    """The same with each split."""
    told = "; ".join(_against(table, data, split, unit) for split in SPLITS)
    return f"{table.source}, {_EVERY_K2}: {told}"


def _of_baselines(told: Sequence[str]) -> str:
    return " and ".join(f"{each} ({METHODS[m]})" for each, m in zip(told, BASELINES, strict=True))


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{each:,g}" for each in numbers)


def _signed(points: float) -> str:
    return f"{points:+.2f}".replace("-", "−")
