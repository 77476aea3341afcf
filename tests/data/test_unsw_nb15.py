"""UNSW-NB15: partitions told by their rows, 196 inputs, standardised by the training records alone."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam.components import build
from fedroam.data import Dataset, forget
from fedroam.data.sources import unsw_nb15
from fedroam.data.sources.unsw_nb15 import ATTACKS, NUMBERS, WORDS, UnswNb15
from fedroam.errors import InputError

HEADER = ["id", "dur", "proto", "service", "state", *NUMBERS[1:], "attack_cat", "label"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Partitions of 60 and 40 rows instead of 175,341 and 82,332."""
    monkeypatch.setattr(unsw_nb15, "ROWS", {"training": 60, "testing": 40})
    monkeypatch.setattr("fedroam.data.sources.places.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    forget()


def rows(n: int, start: int, repeats: int = 0) -> list[list[str]]:
    """n records; the last `repeats` of them repeat the first ones but for their id."""
    made = []
    for k in range(n):
        r = start + (k if k < n - repeats else k - (n - repeats))
        words = [WORDS["proto"][r % 133], WORDS["service"][r % 13], WORDS["state"][r % 11]]
        values = [str((r * 31 + c * 17) % 101 + c) for c in range(38)]
        attack = ATTACKS[r % 4]
        made.append([str(k + 1), f"{r / 8}", *words, *values, attack, str(int(attack != "Normal"))])
    return made


def write(folder: Path, name: str, records: list[list[str]], edit: Callable[[str], str] = str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = edit("\r\n".join(",".join(row) for row in [HEADER, *records]) + "\r\n")
    data = b"\xef\xbb\xbf" + text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def load(root: Path, **settings: Any) -> Dataset:
    part: Any = build("data", {"kind": "unsw_nb15", "root": str(root), **settings})
    dataset: Dataset = part.load()
    return dataset


def test_features_by_hand(tmp_path: Path) -> None:
    records = rows(40, 0)
    write(tmp_path / "unsw_nb15", "UNSW_NB15_training-set.csv.gz", records)  # named as redistributions do
    dataset = load(tmp_path, test="none")
    assert dataset.notes == ("40 records: testing partition",)
    assert dataset.shape == (196,)
    assert len(dataset.y_test) == 0
    assert dataset.class_names == ATTACKS
    assert dataset.y_train.tolist() == [k % 4 for k in range(40)]
    numbers = np.array([[float(r[1]), *map(float, r[5:43])] for r in records])
    wanted = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    np.testing.assert_allclose(dataset.x_train[:, :39], wanted, rtol=0, atol=1e-6)
    for at, column, words in ((39, 2, WORDS["proto"]), (172, 3, WORDS["service"]), (185, 4, WORDS["state"])):
        hot = dataset.x_train[:, at : at + len(words)]
        assert hot.sum(axis=1).tolist() == [1.0] * 40
        assert [words[k] for k in hot.argmax(axis=1)] == [r[column] for r in records]
        assert dataset.columns[("proto", "service", "state")[column - 2]].tolist() == [
            r[column] for r in records
        ]
    binary = load(tmp_path, test="none", label="label")
    assert binary.class_names == ("normal", "attack")
    assert binary.y_train.tolist() == [int(k % 4 > 0) for k in range(40)]


def test_partitions_are_told_by_their_rows_and_joined_training_first(tmp_path: Path) -> None:
    write(tmp_path, "UNSW_NB15_training-set.csv", rows(40, 1000))
    write(tmp_path, "UNSW_NB15_testing-set.csv.gz", rows(60, 0))
    both = load(tmp_path, test="none")
    assert both.notes == ("100 records: training and testing partition",)
    assert load(tmp_path, test="none", records="training").y_train.tolist() == [k % 4 for k in range(60)]
    assert load(tmp_path, test="none", records="testing").notes == ("40 records: testing partition",)
    published = load(tmp_path, test="publisher")
    assert (len(published.y_train), len(published.y_test)) == (60, 40)
    np.testing.assert_allclose(published.x_train[:, :39].mean(axis=0), 0, atol=1e-6)
    assert np.abs(published.x_test[:, :39].mean(axis=0)).max() > 0.05  # scaled as the training records are
    assert load(tmp_path, test="publisher", train_samples=20, test_samples=8).x_test.shape == (8, 196)


def test_deduplication_drops_later_repeats_also_across_partitions(tmp_path: Path) -> None:
    write(tmp_path, "UNSW_NB15_training-set.csv", rows(60, 0, repeats=10))
    write(tmp_path, "UNSW_NB15_testing-set.csv", rows(40, 45))  # 45 .. 49 are in the training partition too
    dataset = load(tmp_path, test="publisher", deduplicate=True)
    assert (len(dataset.y_train), len(dataset.y_test)) == (50, 35)
    assert dataset.notes[1] == "15 repeated records dropped, 85 left"
    alone = load(tmp_path, test="none", records="training", deduplicate=True)
    assert alone.y_train.tolist() == [k % 4 for k in range(50)]


def test_the_shared_test_set_repeats_nothing_of_the_training_set(tmp_path: Path) -> None:
    write(tmp_path, "unsw.csv", rows(60, 0, repeats=30))
    dataset = load(tmp_path, test_share=0.4)
    assert len(dataset.y_train) + len(dataset.y_test) == 60
    trained = {row.tobytes() for row in dataset.x_train}
    assert len(dataset.y_test) >= 20
    assert not any(row.tobytes() in trained for row in dataset.x_test)
    np.testing.assert_allclose(dataset.x_train[:, :39].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_array_equal(load(tmp_path, test_share=0.4).y_test, dataset.y_test)


def test_an_unpublished_value_gets_a_column_of_its_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        "unsw.csv",
        rows(40, 0),
        lambda text: text.replace(",udp,", ",quic,").replace(",3pc,", ",quic,"),
    )
    dataset = load(tmp_path, test="none")
    assert dataset.shape == (197,)
    assert "proto has values beyond the published ones: quic" in dataset.notes
    assert dataset.x_train[0, 39 + 133] == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"records": "training"}, "the training partition (60 records) is wanted, but only"),
        ({"records": "both"}, "the training partition (60 records) is wanted, but only"),
        ({"test": "publisher"}, "the training partition (60 records) is wanted, but only"),
        (
            {"test": "publisher", "records": "testing"},
            'test = "publisher" needs both partitions, but records = "testing"',
        ),
        ({"label": "attack"}, "data.label = 'attack'"),
    ],
)
def test_what_is_not_there_is_told(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    write(tmp_path, "unsw.csv", rows(40, 0))
    with pytest.raises(InputError) as error:
        load(tmp_path, **settings)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda text: text.replace("0.125,", ",", 1),
            "unsw.csv, line 3, column 'dur': empty, wanted is a value",
        ),
        (lambda text: text.replace("0.125,", "fast,", 1), "unsw.csv, line 3, column 'dur': found 'fast'"),
        (
            lambda text: text.replace("Normal,0", "Odd,0", 1),
            "unsw.csv, line 2, column 'attack_cat': 'Odd', allowed are Normal",
        ),
        (
            lambda text: text.replace("Generic,1", "Generic,2", 1),
            "unsw.csv, column 'label': found 2, allowed are 0 and 1",
        ),
        (
            lambda text: text[: text.rindex("\r\n40,") + 2],
            "unsw.csv: 39 rows, wanted are 40 (testing partition) or 60",
        ),
        (lambda text: text.replace("sttl", "ttl", 1), "unsw.csv: has no column 'sttl', but "),
    ],
)
def test_damaged_files_give_one_clear_line(tmp_path: Path, edit: Callable[[str], str], said: str) -> None:
    write(tmp_path, "unsw.csv", rows(40, 0), edit)
    with pytest.raises(InputError) as error:
        load(tmp_path)
    assert said in str(error.value)


def test_missing_data_says_where_to_get_it_by_hand(tmp_path: Path) -> None:
    (tmp_path / "NUSW-NB15_features.csv").write_bytes("No.,Name,Größe\n1,srcip,n\n".encode("latin-1"))
    (tmp_path / "unsw_nb15").mkdir()
    with pytest.raises(InputError) as error:
        load(tmp_path)
    assert (
        "set FEDROAM_DATA or data.root to a folder that holds unsw_nb15/ with UNSW_NB15_training-set.csv"
        in str(error.value)
    )
    assert "get it by hand" in str(error.value)


def test_the_vocabulary_gives_the_published_number_of_inputs() -> None:
    assert [len(NUMBERS), *map(len, WORDS.values())] == [39, 133, 13, 11]
    assert all(len(set(words)) == len(words) for words in (NUMBERS, *WORDS.values()))
    assert UnswNb15().test == "share"
