"""The account against days worked out by hand, and what must hold of every account."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.cost import COLUMNS, Account, Cost, DistanceDistribution, charge
from fedroam.errors import InputError
from fedroam.federation import SERVER, Traffic, access_point

NOBODY = np.zeros(0, dtype=np.int64)
AP = int(access_point(0))


def flat(traffic: Traffic) -> Cost:
    """Clients pay 3 J and 2 s for sending, 1 J and 5 s for receiving."""
    sent, received = traffic.sender >= 0, traffic.receiver >= 0
    return Cost(3.0 * sent, 1.0 * received, 2.0 * sent, 5.0 * received)


def after(
    account: Account,
    transfers: list[tuple[int, int]],
    trained: list[int],
    aggregated: list[int],
    discarded: list[int],
) -> Account:
    """One round; a model has 100 bytes, training costs 10 J."""
    ends = np.array(transfers, dtype=np.int64).reshape(-1, 2)
    traffic = Traffic.of(ends[:, 0], ends[:, 1], 100, 50.0)
    lists = (np.array(one, dtype=np.int64) for one in (trained, aggregated, discarded))
    clients, settled, lost = lists
    return charge(account, traffic, flat(traffic), clients, 10.0 * np.ones(len(clients)), settled, lost)


def test_a_day_of_three_clients() -> None:
    """0 takes part twice; 1 vanishes after training and comes back; 2 vanishes for good."""
    account = after(Account.new(3), [(AP, 0), (AP, 1), (AP, 2), (0, AP), (AP, SERVER)], [0, 1, 2], [0], [])
    assert account.energy.tolist() == [14, 11, 11]
    assert account.energy_pending.tolist() == [0, 11, 11]
    account = after(account, [(AP, 0), (0, AP), (1, AP)], [0], [0, 1], [2])
    assert account.energy.tolist() == [28, 14, 11]
    assert account.energy_training.tolist() == [20, 10, 10]
    assert account.energy_pending.tolist() == [0, 0, 0]
    assert account.energy_wasted.tolist() == [0, 0, 11]
    account = after(account, [(AP, 1)], [1], [], [])
    assert account.energy_pending.tolist() == [0, 11, 0]  # when the run ends: neither settled nor wasted
    assert account.bytes_up.tolist() == [200, 100, 0]
    assert account.bytes_down.tolist() == [200, 200, 100]
    assert account.air_time.tolist() == [2 * 7, 2 + 2 * 5, 5]
    assert account.totals() == {
        "bytes_up": 300,
        "bytes_down": 500,
        "energy": 28 + 25 + 11,
        "energy_training": 50,
        "energy_wasted": 11,
        "energy_pending": 11,
        "air_time": 14 + 12 + 5,
    }


def test_a_loss_takes_along_all_that_is_pending() -> None:
    account = Account.new(1)
    for _ in range(3):
        account = after(account, [(AP, 0)], [0], [], [])
    account = after(account, [(0, AP)], [], [], [0])
    assert account.energy_wasted.tolist() == account.energy.tolist() == [36]
    account = after(account, [(AP, 0), (0, AP)], [0], [0], [])
    assert (account.energy_wasted.tolist(), account.energy.tolist()) == ([36], [50])


def test_work_in_vain_takes_nothing_along() -> None:
    """24 J are pending; of 10 J of training 4 are in vain, and the model of before is received for 1 J."""
    account = after(after(Account.new(1), [(AP, 0)], [0], [], []), [(0, AP)], [0], [], [])
    traffic = Traffic.of([AP], [0], 100, 50.0)
    trained, joules, vain = np.array([0, 0]), np.array([6.0, 4.0]), np.array([0.0, 4.0])
    told = traffic, flat(traffic), trained, joules
    later = charge(account, *told, NOBODY, NOBODY, vain)
    assert (later.energy.tolist(), later.energy_wasted.tolist(), later.energy_pending.tolist()) == (
        [35],
        [4],
        [31],
    )
    settled = charge(account, *told, np.array([0]), NOBODY, vain)
    assert (settled.energy_wasted.tolist(), settled.energy_pending.tolist()) == ([4], [0])


def test_bytes_are_counted_to_the_last_one() -> None:
    big = 2**53
    traffic = Traffic.of([0, 0], [SERVER, SERVER], [big, 1])
    account = charge(Account.new(1), traffic, Cost.nothing(2), NOBODY, np.zeros(0), NOBODY, NOBODY)
    assert account.bytes_up.tolist() == [big + 1]


def test_arrays_and_back() -> None:
    account = after(Account.new(2), [(0, 1)], [0], [1], [0])
    arrays = account.arrays()
    assert tuple(arrays) == COLUMNS
    again = Account.of(arrays)
    assert all((getattr(again, name) == array).all() for name, array in arrays.items())
    with pytest.raises(KeyError):
        Account.of({"energy": np.zeros(2)})


def test_a_client_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="not one of the 2"):
        after(Account.new(2), [(0, 2)], [], [], [])


CLIENTS = 5
ENDS = st.integers(-4, CLIENTS - 1)
ROUNDS = st.lists(
    st.tuples(
        st.lists(st.tuples(ENDS, ENDS, st.integers(1, 10**9), st.floats(0, 1e4)), max_size=12),
        st.lists(st.integers(0, CLIENTS - 1), unique=True),
        st.lists(st.sampled_from(["aggregated", "discarded", "neither"]), min_size=CLIENTS, max_size=CLIENTS),
    ),
    max_size=6,
)


@given(ROUNDS)
def test_every_joule_is_settled_wasted_or_pending(rounds: list[Any]) -> None:
    """Against a slow account, kept client by client, transfer by transfer."""
    radio: Any = build("radio", {"kind": "lte_wifi", "training_energy": 0.01})
    spread, account = DistanceDistribution(900.0, 700.0), Account.new(CLIENTS)
    spent, pending, wasted = ([0.0] * CLIENTS for _ in range(3))
    seconds, up, down = ([0.0] * CLIENTS for _ in range(3))
    for transfers, trained, fates in rounds:
        columns = [np.array(column) for column in zip(*transfers, strict=True)] or [NOBODY] * 4
        traffic = Traffic.of(*columns)
        fate = np.array(fates)
        joules = radio.training(np.array(trained, dtype=np.int64), np.full(len(trained), 7))
        account = charge(
            account,
            traffic,
            radio.cost(traffic, spread),
            np.array(trained, dtype=np.int64),
            joules,
            *(np.flatnonzero(fate == name) for name in ("aggregated", "discarded")),
        )
        for sender, receiver, size, distance in transfers:
            one = radio.cost(Traffic.of(sender, receiver, size, distance), spread)
            for end, energy, time, count in (
                (sender, one.energy_up, one.time_up, up),
                (receiver, one.energy_down, one.time_down, down),
            ):
                if end >= 0:
                    spent[end] += float(energy[0])
                    pending[end] += float(energy[0])
                    seconds[end] += float(time[0])
                    count[end] += size
        for client in trained:
            spent[client] += 0.07
            pending[client] += 0.07
        for client, what in enumerate(fates):
            if what == "discarded":
                wasted[client] += pending[client]
            if what != "neither":
                pending[client] = 0.0
    for name, wanted in (
        ("energy", spent),
        ("energy_pending", pending),
        ("energy_wasted", wasted),
        ("air_time", seconds),
        ("bytes_up", up),
        ("bytes_down", down),
    ):
        np.testing.assert_allclose(getattr(account, name), wanted, rtol=1e-9, atol=1e-9, err_msg=name)
    assert (account.energy_wasted + account.energy_pending <= account.energy * (1 + 1e-12)).all()
