"""Clients as devices with names: data, movement and availability of one device belong to one client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis import compare_runs
from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.data import memory
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.runner import run
from fedroam.scene import deal, prepare
from fedroam.traces import Trace, match, write_trace
from support.tiny import TRACE_FACTS, tiny

# --- the rule -------------------------------------------------------------------------------------------------------


def test_common_names_in_the_order_of_the_first() -> None:
    found = match({"one": ("d", "a", "c", "x"), "two": ("a", "b", "c", "d")}, 2, None)
    assert found.devices == ("d", "a")
    assert found.notes == (
        "clients are matched by the names of devices in one and two",
        "not in all of them, only in one: x",
        "not in all of them, only in two: b",
        "in all of them, but no client: c",
    )
    assert match({"one": ("a", "b"), "two": ("b", "a")}, 2, None).notes == found.notes[:1]


def test_by_order_where_it_is_asked_for_or_no_name_is_common() -> None:
    apart = {"one": ("a", "b"), "two": ("1", "2")}
    assert match({"one": ("a", "b"), "two": ("a", "b")}, 2, "order").devices is None
    found = match(apart, 2, None)
    assert found.devices is None
    assert found.notes[0] == "no device has the same name in one and two: clients follow the order of each"
    assert [note.rpartition(": ")[2] for note in found.notes[1:]] == ["a, b", "1, 2"]
    for lone in ({}, {"one": ("a",)}):
        assert match(lone, 1, None) == match(lone, 1, "order")
        assert match(lone, 1, None).notes == ()


@pytest.mark.parametrize(
    ("names", "clients", "rule", "words"),
    [
        ({"one": "abc", "two": "bcd"}, 3, None, ["clients = 3: 2 device(s)", "1 to 2", "only in one: a", "in two: d"]),
        ({"one": "ab", "two": "ab"}, 3, "names", ["clients = 3: 2 device(s)", "every name is in all of them"]),
        ({"one": "ab", "two": "cd"}, 1, "names", ["0 device(s)", "wanted are common names", 'match = "order"']),
        ({"one": "ab"}, 1, "names", ['match = "names": one knows', "wanted are two", 'partition.kind = "column"']),
        ({}, 1, "names", ['match = "names": nothing knows']),
        ({"one": map(str, range(30)), "two": ["0", "x"]}, 2, None, ["only in one: 1, 2, 3, 4, 5, 6, 7, 8 and 21 more"]),
    ],
)  # fmt: skip
def test_refused(names: Any, clients: int, rule: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        match({source: tuple(each) for source, each in names.items()}, clients, rule)
    assert all(word in str(caught.value) for word in words), caught.value


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=2, max_size=3), st.integers(1, 4)
)
def test_every_client_is_known_to_all(names: list[list[str]], clients: int) -> None:
    sources = {f"source {k}": tuple(each) for k, each in enumerate(names)}
    common = set.intersection(*map(set, names))
    if common and len(common) < clients:
        with pytest.raises(InputError):
            match(sources, clients, None)
        return
    found = match(sources, clients, None)
    assert (found.devices is None) == (not common)
    if found.devices is not None:
        assert len(set(found.devices)) == clients
        assert common.issuperset(found.devices)
        places = [names[0].index(name) for name in found.devices]
        assert places == sorted(places)
        # what is neither a client nor told of is nobody
        listed = {name for note in found.notes[1:] for name in note.rpartition(": ")[2].split(", ")}
        assert listed == {name for each in names for name in each} - set(found.devices)


# --- in a run -------------------------------------------------------------------------------------------------------

SITES = ("north", "south", "east", "west")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Samples of four sites, each with features around a number of its own; a trace in which `west` has most fixes and
    there are `ferry` and no `north`; a log in which `east` is on longest."""
    rows = [f"{10 * k + n % 3},{n},{n % 2},{site}" for k, site in enumerate(SITES) for n in range(12 + 2 * k)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,label,site", *rows]) + "\n")
    movers = {"east": 3, "ferry": 5, "south": 4, "west": 6}
    fixes = np.concatenate(
        [np.stack([np.arange(n), np.full(n, k)], axis=1) for k, n in enumerate(movers.values())]
    )
    trace = Trace(
        tuple(movers),
        np.cumsum([0, *movers.values()]),
        fixes[:, 0].astype(float),
        np.stack([fixes[:, 1], fixes[:, 0]], axis=1).astype(float),
        TRACE_FACTS,
    )
    write_trace(trace, tmp_path / "trace.parquet")
    log = "device,begin,end\neast,0,9\nwest,0,1\nsouth,1,4\ntruck,0,8\n"
    (tmp_path / "log.csv").write_text(log)
    return {
        name: str(tmp_path / f)
        for name, f in (("data", "data.csv"), ("trace", "trace.parquet"), ("log", "log.csv"))
    }


def joined(files: dict[str, str], **settings: Any) -> Experiment:
    own: dict[str, Any] = {
        "clients": 3,
        "rounds": 2,
        "data": {"kind": "csv", "path": files["data"], "columns": ("site",), "normalise": "none"},
        "partition": {"kind": "column", "column": "site"},
        "mobility": {"kind": "trace", "file": files["trace"], "interval": 1.0, "begin": 0.0},
        "activity": {"kind": "trace", "file": files["log"], "interval": 1.0},
    }
    return tiny(**{**own, **settings})


def test_data_movement_and_availability_of_one_device_are_one_client(
    files: dict[str, str], tmp_path: Path
) -> None:
    done = run(joined(files), tmp_path / "run")
    names = ["west", "south", "east"]  # by number of fixes
    assert done.world["names"] == {"mobility": names, "activity": names, "data": names}
    told = done.world["matching"]
    assert told[0] == "clients are matched by the names of devices in mobility and activity and data"
    assert [note.partition(", ")[2] for note in told[1:]] == [
        "only in mobility: ferry",
        "only in activity: truck",
        "only in data: north",
    ]
    clients = done.clients[done.clients["round"] == 0].set_index("client")
    assert clients["device"].tolist() == clients["site"].tolist() == names
    assert clients["x"].tolist() == [3.0, 2.0, 0.0]  # of the trace: a line for each device
    # of the log: west is on in second 0 only, south from 1 to 4, east always
    present = done.positions.pivot_table(index="round", columns="client", values="present").astype(bool)
    assert present.to_numpy().tolist() == [[True, False, True], [False, True, True], [False, True, True]]
    # of the data: nobody holds what is north's
    dataset, split = deal(joined(files))
    values = [set(dataset.columns["site"][held]) for held in split.train]
    assert values == [{"west"}, {"south"}, {"east"}]
    assert sum(len(held) for held in split.train) == (dataset.columns["site"] != "north").sum()
    shown = compare_runs([done]).notes
    assert sum("only in data: north" in note for note in shown) == 1


def test_movement_and_availability_alone(files: dict[str, str], tmp_path: Path) -> None:
    anonymous = {"data": {"kind": "digits", "test_share": 0.9}, "partition": "iid"}
    done = run(joined(files, **anonymous), tmp_path / "run")
    names = ["west", "south", "east"]
    assert done.world["names"] == {"mobility": names, "activity": names}
    assert "site" not in done.clients
    # as played without training
    present = done.positions.pivot_table(index="round", columns="client", values="present").to_numpy()
    graphs = simulate(joined(files, **anonymous)).graphs
    for t, graph in enumerate(graphs, start=1):
        assert not graph[~present[t].astype(bool)].nnz


def test_by_order_each_source_keeps_its_own(files: dict[str, str], tmp_path: Path) -> None:
    done = run(joined(files, match="order"), tmp_path / "run")
    assert done.world["names"]["mobility"] == ["west", "ferry", "south"]
    assert done.world["names"]["activity"] == ["east", "truck", "south"]
    assert done.world["matching"] == []
    held = [set(names.split(", ")) for names in done.world["names"]["data"]]
    assert set.union(*held) == set(SITES)  # four sites for three clients: one has two
    assert sorted(map(len, held)) == [1, 1, 2]
    assert done.clients["device"].tolist()[:3] == ["west", "ferry", "south"]


def test_no_name_in_common_is_told(files: dict[str, str], tmp_path: Path) -> None:
    other = {"partition": {"kind": "column", "column": "label"}, "clients": 2, "activity": "always"}
    data = {"kind": "csv", "path": files["data"], "columns": ("b",), "ignore": ("site",), "normalise": "none"}
    done = run(joined(files, **{**other, "data": data, "partition": {"kind": "column"}}), tmp_path / "run")
    assert done.world["matching"][0].startswith(
        "no device has the same name in mobility and data: clients follow"
    )
    assert done.world["names"]["mobility"] == ["west", "ferry"]
    with pytest.raises(InputError, match=r"0 device\(s\) have the same name in mobility and data"):
        prepare(joined(files, **{**other, "data": data, "partition": {"kind": "column"}, "match": "names"}))


def test_too_few_common_names_are_refused_before_anything_is_written(
    files: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(
        InputError, match=r"clients = 4: 3 device\(s\) .*only in mobility: ferry; .*data: north"
    ):
        run(joined(files, clients=4), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_can_be_matched_has_a_digest_of_its_own(files: dict[str, str]) -> None:
    by_name, by_order = joined(files), joined(files, match="order")
    assert by_name.digest == joined(files, match="names").digest != by_order.digest
    assert "match =" not in by_name.toml()
    assert Experiment(**by_order.settings()) == by_order


def test_numbers_of_a_column_are_names(files: dict[str, str]) -> None:
    """7 as a whole number, as 7.0 and as a text is the device 7."""
    x = np.arange(24, dtype=np.float32).reshape(12, 2)
    for values in (np.repeat([7, 8, 9], 4), np.repeat([7.0, 8.0, 9.0], 4), np.repeat(["7", "8", "9"], 4)):
        part = memory(x, np.arange(12) % 2, columns={"id": values}, test_share=0.0)
        names = joined(files, data=part, partition="column", mobility="static", activity="always").partition
        assert names.device_names(part.load()) == ("7", "8", "9")  # type: ignore[attr-defined]
