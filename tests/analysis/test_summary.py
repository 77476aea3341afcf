"""The comparison of variants against numbers worked out by hand."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from fedroam.analysis import compare_runs, print_comparison
from fedroam.analysis.report.headline import headline
from fedroam.analysis.report.table import cells, columns, remarks
from fedroam.errors import InputError
from support.made_runs import made_run


@pytest.fixture
def table_runs(tmp_path: Path) -> list:
    return [
        made_run(tmp_path, "static", 0, [0.1, 0.4, 0.5]),
        made_run(tmp_path, "static", 1, [0.1, 0.7, 0.6]),
        made_run(tmp_path, "static", 2, [0.1, 0.6, 0.7]),
        made_run(tmp_path, "random", 0, [0.1, 0.6, 0.7]),
        made_run(tmp_path, "random", 1, [0.1, 0.8, 0.9]),
        made_run(tmp_path, "random", 3, [0.1, 0.7, 0.8]),
    ]


def test_means_and_errors_by_hand(table_runs: list) -> None:
    static, random = compare_runs(table_runs, last=2).table.to_dict("records")
    assert (static["variant"], random["variant"]) == ("static", "random")
    assert (static["seeds"], random["seeds"], static["rounds"]) == (3, 3, 20)
    # finals 0.5, 0.6, 0.7: s = 0.1 with two degrees of freedom
    assert static["final"] == pytest.approx(0.6)
    assert static["final_error"] == pytest.approx(0.1 / math.sqrt(3))
    assert static["best"] == pytest.approx((0.5 + 0.7 + 0.7) / 3)
    assert static["last_k"] == pytest.approx((0.45 + 0.65 + 0.65) / 3)
    assert static["mean_model"] == pytest.approx(0.65)
    assert static["bytes"] == 2_000_000
    assert static["bytes_error"] == 0


def test_differences_are_paired_by_seed(table_runs: list) -> None:
    static, random = compare_runs(table_runs).table.to_dict("records")
    # Seeds 0 and 1 are in both: 0.7 - 0.5 and 0.9 - 0.6. Seed 3 has no partner.
    assert random["difference"] == pytest.approx(0.25)
    assert random["difference_error"] == pytest.approx(0.05)
    assert random["difference_n"] == 2
    assert math.isnan(static["difference"])
    assert static["difference_n"] == 0


def test_differences_are_tested_and_corrected_for_their_number(tmp_path: Path) -> None:
    """By hand: differences of 0.2, 0.3, 0.1 (mean 0.2, s = 0.1, t = 2 sqrt(3) with two degrees of freedom), of 0.3,
    0.31, 0.32, and of nothing but one seed, which is not tested and not counted."""
    finals = {
        "static": (0.5, 0.5, 0.5),
        "random": (0.7, 0.8, 0.6),
        "steered": (0.8, 0.81, 0.82),
        "once": (0.9,),
    }
    runs = [
        made_run(tmp_path, variant, seed, [0.1, 0.4, final])
        for variant, each in finals.items()
        for seed, final in enumerate(each)
    ]
    comparison = compare_runs(runs)
    static, random, steered, once = comparison.table.to_dict("records")
    t = 2 * math.sqrt(3)
    p = 1 - t / math.sqrt(t**2 + 2)  # of Student's t with two degrees of freedom
    assert random["difference_p"] == pytest.approx(p)  # the larger of two: by Holm's method as it is
    assert random["difference_low"] == pytest.approx(0.2 - 4.302653 * 0.1 / math.sqrt(3))
    assert random["difference_high"] == pytest.approx(0.2 + 4.302653 * 0.1 / math.sqrt(3))
    t = 31 * math.sqrt(3)
    assert steered["difference_p"] == pytest.approx(2 * (1 - t / math.sqrt(t**2 + 2)))
    assert math.isnan(static["difference_p"])
    assert math.isnan(once["difference_p"])
    said = headline(comparison)
    assert said[1].endswith("(Student's t), p = 0.074: no difference is established.")
    assert said[2].endswith("(Student's t), p = 0.00069: the interval excludes zero.")
    assert said[3].endswith("one seed: no error can be given.")
    assert said[-1] == "Intervals are for each comparison alone; p is corrected for their number (Holm)."


def test_rounds_to_threshold(table_runs: list) -> None:
    static, random = compare_runs(table_runs, threshold=0.7).table.to_dict("records")
    # static: never, round 10, round 20; random: rounds 20, 10, 10
    assert (static["reached"], static["rounds_to"], static["rounds_to_error"]) == (2, 15, 5)
    assert (random["reached"], random["rounds_to"]) == (3, pytest.approx(40 / 3))
    none = compare_runs(table_runs, threshold=0.95).table.to_dict("records")[0]
    assert none["reached"] == 0
    assert math.isnan(none["rounds_to"])


def charged(root: Path) -> list:
    """Static: 2 kJ and 4 kJ in two seeds, a quarter wasted; random, one seed: 1 kJ, nothing wasted."""
    return [
        made_run(root, "static", 0, [0.1, 0.5, 0.6], energy=[0, 500, 2000], wasted=[0, 0, 500]),
        made_run(root, "static", 1, [0.1, 0.7, 0.6], energy=[0, 900, 4000], wasted=[0, 500, 1000]),
        made_run(root, "random", 0, [0.1, 0.6, 0.7], energy=[0, 0.4, 1000]),
    ]


def test_energy_and_bytes_to_the_threshold(tmp_path: Path) -> None:
    static, random = compare_runs(charged(tmp_path), threshold=0.6).table.to_dict("records")
    # Seed 0 reaches it in round 20 (2000 J, 2 MB), seed 1 in round 10 (900 J, 1 MB).
    assert (static["energy_to"], static["energy_to_error"]) == (1450, 550)
    assert (static["bytes_to"], static["bytes_to_error"]) == (1_500_000, pytest.approx(500_000))
    assert (static["energy"], static["energy_error"], static["energy_wasted"]) == (3000, 1000, 750)
    assert (random["energy_to"], random["bytes_to"], random["energy_wasted"]) == (0.4, 1_000_000, 0)
    none = compare_runs(charged(tmp_path / "again"), threshold=0.9)
    assert none.table[["energy_to", "bytes_to"]].isna().all().all()
    assert [cells(none)[0][k] for k in (-4, -2)] == ["never", "never"]


def test_energy_in_words(tmp_path: Path) -> None:
    found = compare_runs(charged(tmp_path), threshold=0.6)
    assert columns(found)[-5:] == [
        "Sent",
        "Sent to 60.0\u00a0%",
        "Energy",
        "Energy to 60.0\u00a0%",
        "Wasted",
    ]
    static, random = cells(found)
    assert static[-5:] == ["2 MB", "1.5 MB", "3 kJ", "1.45 kJ", "25.0\u00a0%"]
    assert random[-4:] == ["1 MB", "1 kJ", "400 mJ", "0.0\u00a0%"]
    assert any(line.startswith("Energy: ") for line in remarks(found))
    assert {len(row) for row in (columns(found), static, random)} == {len(static)}


def test_time_to_the_threshold(table_runs: list, tmp_path: Path) -> None:
    root = tmp_path / "timed"
    timed = [
        made_run(root, "static", 0, [0.1, 0.5, 0.6], time=[0, 1800, 5400]),
        made_run(root, "static", 1, [0.1, 0.7, 0.6], time=[0, 1800, 7200]),
        made_run(root, "random", 0, [0.1, 0.2, 0.3], time=[0, 60, 90]),
    ]
    found = compare_runs(timed, threshold=0.6)
    static, random = found.table.to_dict("records")
    # Seed 0 reaches it after 5400 s, seed 1 after 1800 s.
    assert (static["time_to"], static["time_to_error"]) == (3600, 1800)
    assert (static["time"], random["time"]) == (6300, 90)
    at = columns(found).index("Time to 60.0\u00a0%")
    told = ["Rounds to 60.0\u00a0%", "Time to 60.0\u00a0%", "Contacts that fit", "Broken a round", "Sent"]
    assert columns(found)[at - 1 : at + 4] == told
    assert [row[at : at + 3] for row in cells(found)] == [
        ["1 h", "20.0\u00a0%", "8.0"],
        ["never", "20.0\u00a0%", "8.0"],
    ]
    assert any(line.startswith("Time: ") for line in remarks(found))
    assert any(line.startswith("Contacts that fit: ") for line in remarks(found))
    assert any("of the evaluated ones" in line for line in remarks(found)), "as runs of older versions tell"
    without = compare_runs(table_runs)
    assert without.table["time_to"].isna().all()
    assert not any(head.startswith(("Time", "Contacts")) for head in columns(without))


def test_contacts_and_transfers_are_those_of_all_rounds(tmp_path: Path) -> None:
    """In each of 20 rounds 1 of 4 contacts fits, and 3 of 8 transfers get through; in the two evaluated ones, of which
    a run without totals tells, it is 1 of 5, and 4 of 10."""
    totals = {"contacts": 4.0, "fit": 1.0, "transfers": 8.0, "through": 3.0, "broken": 6.5, "late": 0.5}
    time = [0.0, 600.0, 1200.0]
    whole = made_run(tmp_path, "static", 0, [0.1, 0.5, 0.6], time=time, totals=totals)
    older = made_run(tmp_path, "random", 0, [0.1, 0.5, 0.6], time=time)
    found = compare_runs([whole, older])
    names = ["fit", "through", "broken", "every_round"]
    assert found.table[names].to_numpy(float).tolist() == [[0.25, 0.375, 6.5, 1], [0.2, 0.4, 8.0, 0]]
    assert found.table["late"].tolist()[0] == 0.5
    at = columns(found).index("Contacts that fit")
    assert [row[at : at + 2] for row in cells(found)] == [["25.0\u00a0%", "6.5"], ["20.0\u00a0%", "8.0"]]
    assert any("of the evaluated ones" in line for line in remarks(found))
    alone = remarks(compare_runs([whole]))
    assert "Contacts and transfers are those of all rounds." in alone


@pytest.mark.parametrize("unknown", ["contacts", "late"])
def test_totals_that_are_not_known_are_not_told(tmp_path: Path, unknown: str) -> None:
    """As of a run that an older version began."""
    totals = {"contacts": 4.0, "fit": 1.0, "transfers": 8.0, "through": 3.0, "broken": 6.5, "late": 0.5}
    run = made_run(tmp_path, "static", 0, [0.1, 0.6], time=[0, 60], totals=totals | {unknown: math.nan})
    assert compare_runs([run]).table[["fit", "every_round"]].to_numpy(float).tolist() == [[0.2, 0]]


def test_what_batteries_gave_to_the_threshold(table_runs: list, tmp_path: Path) -> None:
    root = tmp_path / "batteries"
    found = compare_runs(
        [
            made_run(root, "static", 0, [0.1, 0.5, 0.6], drawn=[0, 500, 2000]),
            made_run(root, "static", 1, [0.1, 0.7, 0.6], drawn=[0, 900, 4000]),
            made_run(root, "random", 0, [0.1, 0.2, 0.3], drawn=[0, 1, 30]),
            made_run(root, "dam", 0, [0.1, 0.2, 0.9]),
        ],
        threshold=0.6,
    )
    static, random, dam = found.table.to_dict("records")
    # Seed 0 reaches it after 2000 J, seed 1 after 900 J.
    assert (static["drawn"], static["drawn_to"], static["drawn_to_error"]) == (3000, 1450, 550)
    assert random["drawn"] == 30
    assert math.isnan(random["drawn_to"])
    assert math.isnan(dam["drawn"])
    assert columns(found)[-2:] == ["From batteries", "From batteries to 60.0\u00a0%"]
    assert [row[-2:] for row in cells(found)] == [["3 kJ", "1.45 kJ"], ["30 J", "never"], ["–", "–"]]
    assert any(line.startswith("From batteries: ") for line in remarks(found))
    assert not any(
        "batteries" in line
        for line in [*columns(compare_runs(table_runs)), *remarks(compare_runs(table_runs))]
    )


def test_runs_without_an_account_have_no_energy(table_runs: list, tmp_path: Path) -> None:
    found = compare_runs(table_runs)
    assert found.table["energy"].isna().all()
    assert found.table["energy_to"].isna().all()
    assert columns(found)[-1] == "Sent"
    assert not any("Energy" in line for line in remarks(found))
    mixed = compare_runs([*table_runs[:3], *charged(tmp_path / "new")[2:]])
    assert cells(mixed)[0][-4:] == ["1.5 MB", "–", "–", "–"]


def test_default_threshold_is_a_share_of_the_highest_final(table_runs: list) -> None:
    found = compare_runs(table_runs)
    assert found.threshold == pytest.approx(0.9 * 0.8)
    assert "90" in found.threshold_rule


def test_unfinished_runs_are_left_out_and_named(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, "static", 0, [0.1, 0.2, 0.5]),
        made_run(tmp_path, "static", 1, [0.1, 0.9], done=False, planned=20),
        made_run(tmp_path, "random", 0, [0.1, 0.2, 0.7], diverged_at=10),
    ]
    found = compare_runs(runs)
    assert found.table["final"].tolist() == [0.5, 0.7]
    assert found.table["seeds"].tolist() == [1, 1]
    assert found.table["unfinished"].tolist() == ["1", ""]
    assert found.table["diverged"].tolist() == ["", "0"]
    notes = " ".join(found.notes)
    assert "static, seed 1: unfinished, at round 10 of 20" in notes
    assert "left out" in notes
    assert "random, seed 0: diverged" in notes


def test_a_variant_without_finished_runs_counts_as_far_as_it_got(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, "static", 0, [0.1, 0.5, 0.6]),
        made_run(tmp_path, "random", 0, [0.1, 0.9], done=False, planned=20),
    ]
    _, random = compare_runs(runs).table.to_dict("records")
    assert (random["seeds"], random["final"], random["rounds"]) == (1, 0.9, 10)
    assert random["difference_n"] == 0  # round 10 is not to be compared with round 20


def test_numbers_that_are_none_are_not_hidden(tmp_path: Path) -> None:
    nan = float("nan")
    runs = [made_run(tmp_path, "", 0, [0.1, nan]), made_run(tmp_path, "", 1, [0.1, 0.5])]
    (row,) = compare_runs(runs).table.to_dict("records")
    assert math.isnan(row["final"])
    assert row["best"] == pytest.approx(0.3)
    assert "No run has a final accuracy" in headline(compare_runs(runs))[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"last": 0}, "last = 0"),
        ({"threshold": 80.0}, "threshold = 80"),
        ({"threshold": 0.0}, "threshold = 0"),
    ],
)
def test_wrong_arguments(table_runs: list, arguments: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        compare_runs(table_runs, **arguments)


def test_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs"):
        compare_runs([])
    run = made_run(tmp_path, "", 0, [0.1], done=False)
    for piece in (run.folder / "unfinished").iterdir():
        piece.unlink()
    with pytest.raises(InputError, match="no round has been recorded"):
        compare_runs([run])


def test_a_run_given_twice_counts_once(table_runs: list) -> None:
    assert compare_runs([*table_runs, *table_runs]).table["seeds"].tolist() == [3, 3]


@pytest.mark.parametrize("width", [200, 80])
def test_printed_table(table_runs: list, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    print_comparison(compare_runs(table_runs, threshold=0.95), console)
    text = console.export_text()
    for part in (
        "static",
        "random",
        "60.0 ± 5.8",
        "+25.0 ± 5.0 (n = 2)",
        "never",
        "2 MB",
        "Accuracy is the share",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= width


def test_printed_table_takes_names_literally(tmp_path: Path) -> None:
    run = made_run(tmp_path, "", 0, [0.1, 0.5], name="[red]x[/red]", done=False, planned=90)
    console = Console(width=120, record=True, file=io.StringIO())
    print_comparison(compare_runs([run]), console)
    text = console.export_text()
    assert "[red]x[/red] *" in text
    assert "unfinished, at round 10 of 90" in text
