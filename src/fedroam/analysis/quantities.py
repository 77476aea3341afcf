"""What the columns of `rounds` are called on an axis, and in which unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedroam.analysis.formatting import BYTES, JOULES, SECONDS, Units, largest
from fedroam.errors import unknown
from fedroam.recording import Run


@dataclass(frozen=True)
class Quantity:
    """A column of `rounds`: its label without unit, its unit and the factor to it. units: where the unit follows the
    largest value, those to choose from. log: whether a logarithmic axis suits values that span decades."""

    column: str
    label: str
    unit: str = ""
    scale: float = 1.0
    units: Units = ()
    log: bool = False

    def axis(self, most: float) -> tuple[str, float]:
        """The label with its unit, and the factor to it, where the largest value is that (as in the column)."""
        unit, scale = self.unit, self.scale
        if self.units:
            unit, size = largest(most, self.units)
            scale = 1 / size
        return (f"{self.label} ({unit})" if unit else self.label), scale


def _share(column: str, label: str) -> Quantity:
    return Quantity(column, label, "%", 100.0)


_KNOWN = {
    quantity.column: quantity
    for quantity in (
        Quantity("round", "Communication round"),
        _share("accuracy", "Test accuracy"),
        _share("accuracy_std", "Standard deviation of accuracy over clients"),
        _share("accuracy_pooled", "Pooled test accuracy"),
        _share("balanced_accuracy", "Balanced accuracy"),
        _share("macro_f1", "Macro F1"),
        _share("accuracy_mean_model", "Averaged model's accuracy"),
        Quantity("loss", "Test loss", "nats", log=True),
        Quantity("loss_mean_model", "Averaged model's loss", "nats", log=True),
        Quantity("train_loss", "Training loss", "nats", log=True),
        Quantity("consensus_distance", "Consensus distance Σ‖x − x̄‖²", log=True),
        Quantity("degree_mean", "Mean degree", "contacts per client"),
        Quantity("isolated", "Without contact", "clients"),
        Quantity("active", "Training", "clients"),
        Quantity("bytes", "Sent by all", units=BYTES),
        Quantity("bytes_up", "Sent by clients", units=BYTES),
        Quantity("bytes_down", "Received by clients", units=BYTES),
        Quantity("energy", "Energy of all clients", units=JOULES),
        Quantity("energy_training", "Energy of training", units=JOULES),
        Quantity("energy_wasted", "Energy wasted", units=JOULES),
        Quantity("energy_pending", "Energy pending", units=JOULES),
        Quantity("air_time", "Air time of all clients", "s"),
        Quantity("ap_distance", "Distance to access point", "m"),
        Quantity("out_of_service", "Out of service", "clients"),
        Quantity("waiting", "Waiting updates", "clients"),
        Quantity("seconds", "Wall-clock time", "s"),
        Quantity("time", "Simulated time", units=SECONDS),
        Quantity("time_training", "Training, all clients", units=SECONDS),
        Quantity("time_sending", "Sending, all clients", units=SECONDS),
        Quantity("time_waiting", "Waiting, all clients", units=SECONDS),
        Quantity("time_idle", "Away, all clients", units=SECONDS),
        Quantity("late", "Late", "clients"),
        Quantity("transfers", "Transfers wanted in a round"),
        Quantity("through", "Transfers through in a round"),
        Quantity("broken", "Tries that broke in a round"),
        Quantity("contacts", "Contacts with anything to send in a round"),
        Quantity("fit", "Contacts in which all gets through in a round"),
        Quantity("staleness", "Staleness of updates"),
        Quantity("battery_charge", "Charge of all batteries", units=JOULES),
        Quantity("battery_drawn", "Drawn from batteries", units=JOULES),
        Quantity("battery_drawn_motion", "Drawn for moving", units=JOULES),
        Quantity("battery_gone", "With an empty battery", "clients"),
    )
}


def quantity(name: str, runs: Sequence[Run]) -> Quantity:
    """A column of `rounds` by its name; one of a federation's own is called as it is.

    Raises InputError where not every run has it.
    """
    shared = [str(column) for column in runs[0].rounds if all(column in run.rounds for run in runs)]
    if name not in shared:
        raise unknown("column of rounds", name, [column for column in shared if column != "round"])
    if name in _KNOWN:
        return _KNOWN[name]
    if name.startswith("accuracy_"):
        return _share(name, f"Test accuracy, {name.removeprefix('accuracy_').replace('_', ' ')}")
    return Quantity(name, name.replace("_", " ").capitalize())
