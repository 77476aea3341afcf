"""Table 10 of Farcas et al., and how far an emulated site is its simulation."""

from __future__ import annotations

from fedroam.papers.prototype.measures import (
    COMPARED,
    LIMIT,
    TABLE_10,
    TIMES,
    communication_all,
    difference,
    identical,
    of_both,
    off,
    seconds_by_round,
    training_all,
)
from fedroam.papers.prototype.runs import DATA, METHODS, PLACES, played
from fedroam.study.items import Curves, Table, table
from fedroam.study.measures import final
from fedroam.study.values import Measure, Quotient, Value

Place = tuple[str, str]  # data, and a method or GAIN
GAIN = "gain"
NODES: dict[str, Place] = {
    f"{label}, {word}": (data, method)
    for data, (label, _) in DATA.items()
    for method, word in METHODS.items()
}
WITH_GAIN: dict[str, Place] = {
    f"{label}, {word}": (data, method)
    for data, (label, _) in DATA.items()
    for method, word in {**METHODS, GAIN: "improvement"}.items()
}


def _spent(measure: Measure, place: Place) -> Value | Quotient:
    data, method = place
    if method == GAIN:
        return Quotient(*of_both(measure, data))
    return measure.of(played(data, method, "network"))


ENERGY = table(
    "table-10",
    "Energy of 36 devices by the model, as nodes have played the rounds (J)",
    {**TABLE_10, "Consumed by training": training_all, "Consumed by communication": communication_all},
    WITH_GAIN,
    _spent,
    (
        (6_893_090, 2_690_005, 2.56, 37_021_657, 14_969_761, 2.47),
        (10_563_326, 7_707_298, 1.37, 43_893_178, 40_041_313, 1.1),
        ((94, 39), (42, 23), 2.24, (475, 112), (243, 130), 1.95),
        ((137, 34), (87, 12), 1.57, (548, 100), (470, 23), 1.17),
        ((514, 464), (121, 135), 4.25, (2_615, 2_082), (668, 610), 3.91),
        ((727, 644), (612, 520), 1.19, (3_165, 2_325), (3_262, 2_445), 0.97),
        (None,) * 6,
        (None,) * 6,
    ),
    source="Table 10",
    caption="The paper's joules are measured at the sockets of 36 Raspberry Pi 3B+ over an experiment whose number of "
    "rounds it does not give; ours are reckoned, of fewer rounds at small scales. So only the improvements can be held "
    "against each other. The paper's averages do not follow from its sums: 6,893,090 J over 36 devices is not 94 J.",
)
AGREES = table(
    "network-is-simulation",
    "How far the run on the network is the simulated one: largest differences, in millionths",
    {what: what for what in COMPARED},
    NODES,
    lambda what, place: difference(what).of(played(*place, "network")),
    source="not in the paper",
    caption="Of models, accuracies and losses differences themselves, of seconds and joules shares of the value; of "
    f"who takes part and of bytes none is allowed, of models, accuracies and losses {LIMIT:g} millionths, of the "
    "others a thousandth of one. Models are those of the last checkpoints, all else is of every evaluated round.",
)
SAME = table(
    "same-bits",
    "Share of runs in which the two are the same, bit for bit",
    {what: what for what in COMPARED},
    NODES,
    lambda what, place: identical(what).of(played(*place, "network")),
    source="not in the paper",
)
TIME = table(
    "time-per-round",
    "Time of a round on the network and simulated (s), and what it was spent on",
    {**TIMES, "Furthest apart in any round (%)": off},
    NODES,
    lambda measure, place: measure.of(played(*place, "network")),
    source="not in the paper",
    caption="The simulation knows training and transfers, by device: a round is over when the last device is done. On "
    "the network training takes as long as the device's, however fast this machine is, and transfers as long as the "
    "link says. Beside them there are messages, checks, aggregation, and what else this machine does.",
)
LEARNT = table(
    "accuracy",
    "Final accuracy of the cloud's model (%)",
    NODES,
    {str(where): where for where in PLACES},
    lambda place, where: final.of(played(*place, where)),
    source="not in the paper",
)
TABLES: tuple[Table, ...] = (ENERGY, AGREES, SAME, TIME, LEARNT)
FIGURES = (
    Curves(
        "seconds",
        "Time of a round, on the network and simulated",
        {
            word: {
                "network": played("mnist", method, "network"),
                "simulated": played("mnist", method, "simulation"),
            }
            for method, word in METHODS.items()
        },
        seconds_by_round,
        ylabel="Time of a round (s)",
        factor=1.0,
        grey=("simulated",),
    ),
)
