"""What the paper of MoCFL prints for a claim, in words for its card. Table 1 is printed in shares, as 0.8990."""

from __future__ import annotations

from collections.abc import Iterable

from fedroam.papers.mocfl.runs import FEW, MANY, PAPERS, RIVALS, TABLE_1, TABLE_2

# Of all rates of activity, with 50 clients.
STABLE = 'Sec. 4.2: "the highest average test accuracy of 86%, maintaining stable robustness throughout"'
SLIGHTLY = 'Sec. 4.2, in words only: with higher activity "slightly better accuracy"'


def _place(clients: int) -> int:
    return (FEW, MANY).index(clients)


def _share(percent: float) -> str:
    return f"{percent / 100:.4f}"


def _best(kind: str, clients: int) -> str:
    """A method's number in Table 1."""
    return _share(TABLE_1[kind][_place(clients)])


def span(kinds: Iterable[str], clients: int) -> str:
    """The least and the largest number of several methods in Table 1."""
    numbers = [TABLE_1[kind][_place(clients)] for kind in kinds]
    return f"{_share(min(numbers))} to {_share(max(numbers))}"


def mean_of(kinds: Iterable[str], clients: int) -> str:
    """The mean of their numbers in Table 1, which the paper does not print."""
    numbers = [TABLE_1[kind][_place(clients)] for kind in kinds]
    return _share(sum(numbers) / len(numbers))


def ahead_of_rivals(clients: int) -> str:
    """MoCFL beside the best of the others in Table 1."""
    best = max(RIVALS, key=lambda kind: TABLE_1[kind][_place(clients)])
    own, other = _best("mocfl", clients), _best(best, clients)
    return f"Table 1: {own} against {other} of {PAPERS[best]}, the best of the others"


def ahead_of_all(clients: int) -> str:
    """MoCFL beside the span of the others in Table 1."""
    return f"Table 1, NC = {clients}: {_best('mocfl', clients)} against {span(RIVALS, clients)}"


def times(clients: int) -> str:
    """The seconds of Table 2 of MoCFL, FedAvg and FedProx, and their ratios, which the paper does not print."""
    own = TABLE_2["mocfl"][_place(clients)]
    others = {PAPERS[kind]: TABLE_2[kind][_place(clients)] for kind in ("fedavg", "fedprox")}
    told = " and ".join(f"{seconds} s of {name}" for name, seconds in others.items())
    ratios = " and ".join(f"{own / seconds:.2f}" for seconds in others.values())
    return f"Table 2, NC = {clients}: {own} s against {told}, so {ratios} times"
