"""Measured energy: read beside the node, attributed by its own log, settled as the run settled its updates."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.cli.entry import app
from fedroam.deploy.metering import readings as metering
from fedroam.deploy.metering.measured import TABLE, UPDATES, Measured, keep, measured_energy, note_updates
from fedroam.deploy.metering.readings import DONE, FOLDER, Metering, metered, readings_of, work_of
from fedroam.deploy.node.process import Node
from fedroam.deploy.site.file import FILE, read_site
from fedroam.devices.meters import MeterError, Sample, WorkClock
from fedroam.errors import FedroamError, InputError
from fedroam.recording import Run, open_run
from fedroam.runner import run
from support.losing import same_runs
from support.sites import LocalSite
from support.tiny import tiny

EVERY = {"evaluate_every": 1, "test_share": 0.0}
POWERS = {"kind": "model", "idle": 2.0, "training": 7.0, "communication": 3.0}


class Scripted:
    """A meter that says what it is told to, then waits. live: as of a meter that reads as it goes."""

    live = True

    def __init__(self, *scripts: list[Sample | Exception]) -> None:
        self.scripts, self.said = list(scripts), threading.Event()

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        for said in self.scripts.pop(0):
            if isinstance(said, Exception):
                raise said
            yield said
        self.said.set()
        stop.wait()


def power(time: float, watt: float) -> Sample:
    return Sample(time, 1000.0 + time, watt=watt)


def written(folder: Path, meter: Any, work: list[tuple[Any, int, float, float]], client: int = 0) -> None:
    """Let a meter be read beside a node's work."""
    metering = Metering(meter, folder, f"client-0{client}", client, lambda line: None)
    metering.start()
    assert meter.said.wait(60)
    for what, round, begin, end in work:
        metering.watch.intervals.append((round, what, begin, end))  # type: ignore[arg-type]
    metering.stop()


@pytest.fixture
def ran(tmp_path: Path) -> Run:
    return run(tiny(**EVERY, federation="fedavg", clients=3, rounds=3), tmp_path / "run")


# --- by hand ------------------------------------------------------------------------------------------------------


def by_hand(ran: Run) -> Path:
    """Client 0 draws 4 W, then 10 W from second 10 on; client 1 is counted. Client 0's first update comes too late."""
    folder = ran.folder / FOLDER
    steps = [*(power(float(t), 4.0) for t in range(11)), *(power(float(t), 10.0) for t in range(10, 21))]
    written(
        folder,
        Scripted(list(steps)),
        [("communication", 1, 0.5, 1.5), ("training", 1, 2, 5), ("training", 2, 9, 11), ("other", 3, 18, 30)],
    )
    counts: list[Sample | Exception] = [Sample(float(t), 0.0, joule=3.0 * t) for t in range(0, 21, 10)]
    written(folder, Scripted(counts), [("training", 1, 1.0, 4.0), ("training", 3, 15.0, 16.0)], client=1)
    for round, aggregated, discarded in ((1, [], []), (1, [1], []), (2, [], [0]), (3, [], [])):
        note_updates(ran.folder, round, np.array(aggregated, np.int64), np.array(discarded, np.int64))
    return folder


def test_energy_is_attributed_and_settled(ran: Run) -> None:
    by_hand(ran)
    found = measured_energy(ran)
    table = found.table.set_index(["client", "round"])
    assert table.loc[(0, 1), ["training", "communication", "other"]].tolist() == pytest.approx(
        [12.0, 4.0, 0.0]
    )
    assert table.loc[(0, 2), "training"] == pytest.approx(4.0 + 10.0)
    assert table.loc[(0, 3), "other"] == pytest.approx(20.0)
    assert table.loc[(0, 3), ["seconds", "measured"]].tolist() == pytest.approx([12.0, 2.0])
    assert table.loc[(1, 1), "consumed"] == pytest.approx(9.0)
    assert table.loc[(1, 2), "consumed"] == 0.0
    # Client 0's rounds 1 and 2 are lost in round 2; what it spends in round 3 is neither lost nor aggregated.
    assert found.table["wasted"].tolist() == pytest.approx([0, 0, 16.0 + 14.0, 0, 0, 0])
    assert found.pending == pytest.approx(20.0 + 3.0)
    assert found.clients == 3
    outside = (4.0 * 10 + 10.0 * 10 - 50.0) + (60.0 - 12.0)
    assert found.rest == pytest.approx(outside / ((20.0 - 8.0) + (20.0 - 4.0)))


def test_what_was_in_vain_is_wasted_and_no_more(ran: Run) -> None:
    """Client 0's work of round 2 did not arrive: that of round 1, which it goes on with, is aggregated in round 3."""
    by_hand(ran)
    (ran.folder / FOLDER / UPDATES).unlink()
    nobody, first = np.zeros(0, np.int64), np.zeros(1, np.int64)
    note_updates(ran.folder, 1, nobody, nobody)
    note_updates(ran.folder, 2, nobody, nobody, first)
    note_updates(ran.folder, 3, first, nobody)
    found = measured_energy(ran)
    assert found.table["wasted"].tolist() == pytest.approx([0, 0, 14.0, 0, 0, 0])
    assert found.pending == pytest.approx(9.0 + 3.0), "client 1's"
    less = measured_energy(ran, idle=1.5).table.set_index(["client", "round"])
    assert less.loc[(0, 1), "training"] == pytest.approx(12.0 - 4.5)
    assert less.loc[(0, 3), "other"] == pytest.approx(20.0 - 3.0)


def test_totals_are_laid_out_as_table_10(ran: Run) -> None:
    by_hand(ran)
    totals = measured_energy(ran).totals().set_index("energy")
    per_device = np.array([16.0 + 14.0 + 20.0, 12.0])
    per_round = np.array([16.0 + 9.0, 14.0, 20.0 + 3.0])
    assert totals.loc["cumulative consumed / experiment", "joules"] == pytest.approx(62.0)
    assert totals.loc["cumulative wasted / experiment", "joules"] == pytest.approx(30.0)
    for what, each in (("device", per_device), ("communication round", per_round)):
        line = totals.loc[f"average consumed / {what}"]
        assert line.tolist() == pytest.approx([each.mean(), each.std(ddof=1)])
    assert totals.loc["average wasted / communication round"].tolist() == pytest.approx(
        [10.0, np.std([0, 30, 0], ddof=1)]
    )


def test_the_command_prints_it(ran: Run) -> None:
    by_hand(ran)
    result = CliRunner().invoke(app, ["energy", str(ran.folder), "--idle", "1"])
    assert result.exit_code == 0, result.output
    for line in (
        "average wasted / communication round", "2 of 3 clients have a meter; it saw 12.0 of 22.0 s",
        "1 W are taken off", "outside their work they drew 4.929 W",
    ):  # fmt: skip
        assert line in result.output
    kept = pd.read_parquet(ran.folder / FOLDER / TABLE)
    assert kept["consumed"].sum() == pytest.approx(62.0 - 12.0)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: (folder / UPDATES).unlink(), "updates.jsonl: missing"),
        (lambda folder: (folder / UPDATES).write_text('{"round": 0, "aggregated": [], "discarded": []}\n'), "round"),
        (lambda folder: (folder / UPDATES).write_text("{\n"), "line 1"),
        (lambda folder: work_of(folder, "client-01").write_bytes(b"PAR1"), "client-01.work.parquet"),
        (lambda folder: readings_of(folder, "client-01").unlink(), "client-01.parquet: missing"),
        (lambda folder: pd.DataFrame({"a": [1]}).to_parquet(work_of(folder, "client-01")), "column 'client'"),
        (lambda folder: [path.unlink() for path in folder.iterdir()], "no readings of meters"),
        (lambda folder: _as(folder, "what", "sleep"), "column what: allowed are training, communication, other"),
        (lambda folder: _as(folder, "round", 4), "round 4, allowed are 0 to 3"),
        (lambda folder: _as(folder, "client", 3), "client 3, allowed are 0 to 2"),
        (lambda folder: _as(folder, "begin", np.nan), "row 1, column begin and end"),
        (lambda folder: _read(folder, "joule", np.inf), "column watt and joule: allowed are 0 to"),
        (lambda folder: _read(folder, "watt", 1.0), "column watt and joule: allowed are one of the two"),
        (lambda folder: _read(folder, "monotonic", [2.0, 1.0, 3.0]), "row 2, column monotonic"),
        (lambda folder: _read(folder, "monotonic", np.nan), "row 1, column monotonic"),
        (lambda folder: _as(folder, "client", 0), "client 0 is measured by several nodes"),
    ],
)  # fmt: skip
def test_damaged_readings_are_told(ran: Run, damage: Any, told: str) -> None:
    damage(by_hand(ran))
    with pytest.raises(InputError, match=re.escape(told)):
        measured_energy(ran)


def _as(folder: Path, column: str, value: object) -> None:
    table = pd.read_parquet(work_of(folder, "client-01"))
    table.assign(**{column: value}).astype(table.dtypes).to_parquet(work_of(folder, "client-01"))


def _read(folder: Path, column: str, value: object) -> None:
    table = pd.read_parquet(readings_of(folder, "client-01"))
    table.assign(**{column: value}).to_parquet(readings_of(folder, "client-01"))


def test_a_line_that_a_kill_cut_off_is_left_out(ran: Run) -> None:
    folder = by_hand(ran)
    before = measured_energy(ran)
    with (folder / UPDATES).open("a") as file:
        file.write(json.dumps({"round": 3, "aggregated": [0], "discarded": []})[:20])
    pd.testing.assert_frame_equal(measured_energy(ran).table, before.table)
    for _ in range(2):  # the run goes on, and plays the round again
        note_updates(ran.folder, 3, np.zeros(0, np.int64), np.zeros(0, np.int64))
    pd.testing.assert_frame_equal(measured_energy(ran).table, before.table)


# --- the thread ---------------------------------------------------------------------------------------------------


def test_a_meter_that_is_lost_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "AGAIN", 0.01)
    first: list[Sample | Exception] = [
        Sample(0.0, 0.0, joule=0.0),
        Sample(1.0, 0.0, joule=5.0),
        MeterError("has hung up"),
    ]
    again: list[Sample | Exception] = [Sample(3.0, 0.0, joule=0.0), Sample(5.0, 0.0, joule=4.0)]
    meter, lines = Scripted(first, [MeterError("is busy")], again), [""][:0]
    own = Metering(meter, tmp_path, "client-00", 0, lines.append)
    own.start()
    assert meter.said.wait(60)
    own.watch.intervals.append((1, "training", 0.0, 4.0))  # type: ignore[arg-type]
    own.stop()
    assert lines == ["client-00: its meter is lost: has hung up"]
    readings = pd.read_parquet(readings_of(tmp_path, "client-00"))
    assert readings["piece"].tolist() == [0, 0, 2, 2]
    assert readings["joule"].tolist() == [0.0, 5.0, 0.0, 4.0]


def test_a_meter_that_cannot_be_read_is_told_before_the_node_begins(tmp_path: Path) -> None:
    for problem in (MeterError("nobody there"), InputError("meter.path: no")):
        own = Metering(Scripted([problem]), tmp_path / "none", "client-00", 0, lambda line: None)
        with pytest.raises(FedroamError, match=str(problem)):
            own.start()
    assert not (tmp_path / "none").exists()


def test_a_node_that_starts_again_adds_to_what_was_measured(tmp_path: Path) -> None:
    for begin in (0.0, 100.0):
        written(
            tmp_path,
            Scripted([power(begin, 2.0), power(begin + 5, 2.0)]),
            [("training", 1, begin, begin + 1)],
        )
    readings, work = (pd.read_parquet(of(tmp_path, "client-00")) for of in (readings_of, work_of))
    assert readings["process"].tolist() == [0, 0, 1, 1]
    assert work[["process", "begin"]].to_numpy().tolist() == [[0, 0.0], [1, 100.0]]


def test_a_node_that_was_killed_between_its_first_two_files_starts_again(tmp_path: Path) -> None:
    samples: list[Sample | Exception] = [power(0.0, 2.0), power(5.0, 2.0)]
    written(tmp_path, Scripted(samples), [])
    work_of(tmp_path, "client-00").unlink()
    written(tmp_path, Scripted(samples), [("training", 1, 0.0, 1.0)])
    readings, work = (pd.read_parquet(of(tmp_path, "client-00")) for of in (readings_of, work_of))
    assert readings["process"].tolist() == [0, 0, 1, 1]
    assert work["process"].tolist() == [1]
    assert work.dtypes.to_dict() == pd.DataFrame(columns=list(DONE)).astype(DONE).dtypes.to_dict()


def test_a_disk_that_is_full_for_a_while_ends_no_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried after each reading, and fails twice, in either of the two files, and once more at the end."""
    honest, fails, lines = metering.write_table, [True, False, True, *[False] * 6, True], list[str]()

    def full(path: Path, table: pd.DataFrame) -> object:
        if fails and fails.pop(0):
            raise OSError(28, "No space left on device")
        return honest(path, table)

    monkeypatch.setattr(metering, "KEEP", -1.0)
    monkeypatch.setattr(metering, "write_table", full)
    meter = Scripted([power(float(t), 2.0) for t in range(5)])
    own = Metering(meter, tmp_path, "client-00", 0, lines.append)
    own.start()
    assert meter.said.wait(60)
    problem = "client-00: its meter's readings cannot be written: No space left on device"
    assert lines == [f"{problem}; they are kept, and it tries again"]
    assert len(pd.read_parquet(readings_of(tmp_path, "client-00"))) == 5
    with pytest.raises(FedroamError, match=f"^{problem}$"):
        own.stop()
    own.stop()
    assert len(pd.read_parquet(readings_of(tmp_path, "client-00"))) == 5


# --- a whole run --------------------------------------------------------------------------------------------------


def test_nodes_are_measured_and_learn_the_same(tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation={"kind": "mohawk", "k2": 2}, clients=3, rounds=3)
    site = LocalSite.new(tmp_path / "site", experiment)
    known = read_site(site.folder / FILE)
    for node in known.clients.values():
        known = known.changed(node.model_copy(update={"meter": POWERS}))
    known.write(site.folder)
    ran = site.run(tmp_path / "network", dict.fromkeys(range(3), _metered(tmp_path / "network" / FOLDER)))
    same_runs(ran, run(experiment, tmp_path / "simulated"))
    found: Measured = measured_energy(ran)
    assert sorted(found.table["node"].unique()) == ["client-00", "client-01", "client-02"]
    trained = found.table.query("training > 0")
    assert len(trained) > 3
    np.testing.assert_allclose(found.table["measured"], found.table["seconds"], rtol=1e-9)
    np.testing.assert_allclose(
        found.table["consumed"],
        _by_log(ran, {"training": 7.0, "other": 7.0, "communication": 3.0}),
        rtol=1e-9,
    )
    # Settled as the model's energy is, which is charged for the same transfers.
    assert 0 <= found.table["wasted"].sum() + found.pending <= found.table["consumed"].sum()
    modelled = ran.clients.query("round == 3").set_index("client")["energy_wasted"]
    measured = found.table.groupby("client")["wasted"].sum()
    assert ((modelled > 0) == (measured > 0)).all()
    keep(ran, found)
    assert open_run(ran.folder).done


def _metered(folder: Path) -> Any:
    """A node whose own meter is read while it attends."""

    def change(node: Node) -> None:
        attend = node.run

        def measured() -> None:
            with metered(node, folder):
                attend()

        node.run = measured  # type: ignore[method-assign]

    return change


def _by_log(ran: Run, powers: dict[str, float]) -> list[float]:
    """Joules of each row of the table, from the nodes' logs alone."""
    total: dict[tuple[int, int], float] = {}
    for client in range(3):
        work = pd.read_parquet(work_of(ran.folder / FOLDER, f"client-0{client}"))
        for row in work.itertuples():
            key = (int(row.round), client)
            total[key] = total.get(key, 0.0) + powers[row.what] * (row.end - row.begin)
    return [total.get((round, client), 0.0) for round in range(1, 4) for client in range(3)]


def test_a_meter_that_is_none_is_told(tmp_path: Path) -> None:
    site = LocalSite.new(tmp_path / "site", tiny(**EVERY, federation="fedavg", clients=2, rounds=1))
    known = read_site(site.folder / FILE)
    known.changed(known.clients[0].model_copy(update={"meter": {"kind": "raple"}})).write(site.folder)
    from fedroam.deploy.node.process import node_of

    node = node_of(site.folder, "client-00", lambda line: None)
    with (
        pytest.raises(InputError, match=r"site.toml, node client-00: .*'raple'.*did you mean 'rapl'"),
        metered(node, tmp_path),
    ):
        pass
    node.share.close()
