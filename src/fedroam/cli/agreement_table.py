"""What `fedroam emulate --check` prints: how far a run on a network is the simulated one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from fedroam.cli.console import grid

if TYPE_CHECKING:
    from fedroam.analysis.agreement import Compared


def agreement_table(compared: Sequence[Compared]) -> Table:
    """A row for each thing that was compared."""
    table = grid("network against simulation", "rounds", "values", "differ by", "allowed")
    table.add_column()
    for each in compared:
        word = "the same bits" if each.identical else "agrees" if each.agrees else "DIFFERS"
        share = " of it" if each.relative else ""
        table.add_row(
            each.what,
            f"{each.rounds}",
            f"{each.values:,}",
            f"{each.difference:.3g}{share}",
            f"{each.allowed:g}{share}",
            word,
        )
    return table


# Kinds of work, as they are told; what nodes are asked for is a matter of milliseconds where it is not named.
WORK = {"train": "training", "carry": "models on their way", "aggregate": "aggregation"}


def seconds_words(seconds: Mapping[str, float]) -> str:
    """How long a round took on average on the network and simulated, and what it was spent on, of which the simulation
    knows training and transfers alone."""
    network, simulated = seconds["network"], seconds["simulated"]
    known = {word: seconds[work] for work, word in WORK.items() if seconds.get(work)}
    rest = network - sum(known.values())
    spent = ", ".join(f"{word} {value:.2f} s" for word, value in {**known, "all else": rest}.items())
    share = f" ({network / simulated - 1:+.1%})" if simulated else ""
    return f"a round took {network:.2f} s on average, simulated {simulated:.2f} s{share}: {spent}"
