"""Who holds what is found once for the runs of a process that differ in something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedroam.components import Part, build, register
from fedroam.data import dataset as datasets
from fedroam.data import forget, load_dataset, memory
from fedroam.data.dataset import Dataset, Split
from fedroam.data.dirichlet import Dirichlet
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.runner import run
from fedroam.scene import deal
from fedroam.sweep.sharing import arrays_of, describe, rebuild
from support.tiny import own_data, tiny


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of clients of each time that samples were dealt out."""
    found: list[int] = []
    split = Dirichlet.split

    def counted(part: Dirichlet, dataset: Dataset, clients: int, stream: Any) -> list[np.ndarray]:
        found.append(clients)
        return split(part, dataset, clients, stream)

    monkeypatch.setattr(Dirichlet, "split", counted)
    forget()
    return found


def given(**settings: Any) -> Experiment:
    """A few rounds on digits."""
    partition = {"kind": "dirichlet", "alpha": 1.0}
    return tiny(**{"clients": 4, "rounds": 2, "data": "digits", "partition": partition, **settings})


def arrays(split: Split) -> list[np.ndarray]:
    """All of a split."""
    return [*split.train, *split.validation, *split.test]


def test_runs_of_other_settings_share_what_they_hold(dealt: list[int]) -> None:
    first = deal(given())[1]
    for same in (given(), given(training={"kind": "sgd", "lr": 0.5}), given(mobility="static", rounds=9)):
        again = deal(same)[1]
        assert all(map(np.array_equal, arrays(first), arrays(again)))
    assert dealt == [4]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"clients": 5},
        {"test_share": 0.25},
        {"validation_share": 0.25},
        {"partition": {"kind": "dirichlet", "alpha": 2.0}},
        {"data": {"kind": "digits", "test_share": 0.3}},
    ],
)
def test_whatever_decides_it_is_asked_for(other: dict[str, Any], dealt: list[int]) -> None:
    deal(given())
    after = deal(given(**other))[1]
    forget()
    anew = deal(given(**other))[1]
    assert len(dealt) == 3
    assert all(map(np.array_equal, arrays(after), arrays(anew)))


def test_the_same_run_comes_of_it(dealt: list[int], tmp_path: Path) -> None:
    experiment = given(test_share=0.2, validation_share=0.1, evaluate_on="own")
    anew = run(experiment, tmp_path / "anew")
    shared = run(experiment, tmp_path / "shared")
    assert dealt == [4]
    pd.testing.assert_frame_equal(anew.partition, shared.partition)
    pd.testing.assert_frame_equal(anew.clients, shared.clients, check_exact=True)
    newest = "checkpoints/round-00000002.safetensors"
    assert (anew.folder / newest).read_bytes() == (shared.folder / newest).read_bytes()


def test_what_one_run_writes_into_it_does_not_reach_the_next(dealt: list[int]) -> None:
    first = deal(given(test_share=0.2))[1]
    kept = [part.copy() for part in arrays(first)]
    for part in arrays(first):
        part[:] = -1
    assert all(map(np.array_equal, kept, arrays(deal(given(test_share=0.2))[1])))
    assert dealt == [4]


def test_little_is_kept(dealt: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = load_dataset(given().data)
    each = deal(given())[1].nbytes
    arrays = 3 * 4  # of four clients
    assert each == 8 * len(dataset.y_train) + datasets.OF_AN_ARRAY * arrays
    monkeypatch.setattr(datasets, "DEALT", 3 * each)
    for seed in (1, 2, 0, 3):  # of four the one that was longest unused is dropped: 1
        deal(given(seed=seed))
    assert sum(split.nbytes for split in dataset._dealt.values()) == 3 * each
    dealt.clear()
    for seed in (0, 2, 3):
        deal(given(seed=seed))
    assert dealt == []
    deal(given(seed=1))
    assert dealt == [4]
    monkeypatch.setattr(datasets, "DEALT", each - 1)
    deal(given(seed=5))
    assert not dataset._dealt


def test_a_partition_of_ones_own_deals_each_time(dealt: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    from fedroam import components

    monkeypatch.setattr(components, "_registry", {k: dict(v) for k, v in components._registry.items()})

    @register("partition", "first_come")
    class FirstCome(Part):
        """Each gets as many, another number of times."""

        def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
            """In their order."""
            dealt.append(-1)
            return list(np.array_split(np.arange(len(dataset.y_train)), clients))

    for _ in range(2):
        deal(given(partition=FirstCome(), data=own_data()))
    assert dealt == [-1, -1]


@pytest.mark.parametrize(
    ("samples", "cut", "settings", "said"),
    [
        (2, {"test_share": 0}, {}, "(its test_share is 0); set evaluate_on = 'own' and test_share, e.g. 0.2"),
        (
            1,
            {},
            {},
            "(its test_share of 0.2 of each class rounds to no sample, as no class has more than 1); set evaluate_on = "
            "'own' and test_share, e.g. 0.2",
        ),
        (
            3,
            {"x_test": np.zeros((0, 2)), "y_test": np.zeros(0, int)},
            {},
            "(its x_test holds no samples); set",
        ),
        (
            2,
            {"test_share": 0},
            {"test_share": 0.25},
            "(its test_share is 0); set evaluate_on = 'own': test_share = 0.25 is of each client's own samples, which "
            "only that reads",
        ),
    ],
)
def test_why_there_is_no_shared_test_set_is_told(
    samples: int, cut: dict[str, Any], settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    labels = np.repeat(np.arange(20), samples)
    data = memory(np.zeros((len(labels), 2)), labels, **cut)
    with pytest.raises(InputError) as error:
        run(tiny(data=data, model="mlp", **settings), tmp_path / "run")
    assert str(error.value).startswith(f"data 'memory' has no shared test set {said}")
    assert not (tmp_path / "run").exists()


def test_a_table_and_data_that_a_sweep_lends_tell_it_too(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("v,label\n" + "".join(f"{k},{k % 10}\n" for k in range(20)))
    dataset = load_dataset(build("data", {"kind": "csv", "path": str(tmp_path / "own.csv")}))
    told = "its test_share of 0.2 of each class rounds to no sample, as no class has more than 2"
    assert dataset.untested == told
    assert rebuild(describe(build("data", "digits"), dataset), arrays_of(dataset)).untested == told
    assert load_dataset(build("data", "digits")).untested == ""
