"""torch's default generator is lent to one thread at a time."""

from __future__ import annotations

import threading
import time

import torch

from fedroam.randomness import torch_default_stream


def test_threads_that_borrow_the_default_generator_do_not_disturb_each_other() -> None:
    def draw(client: int) -> list[float]:
        with torch_default_stream(7, "start model", client=client):
            drawn = []
            for _ in range(5):
                drawn.append(float(torch.rand(())))
                time.sleep(0.001)  # let others in, if they can
            return drawn

    alone = [draw(client) for client in range(6)]
    before = torch.get_rng_state()
    together: dict[int, list[float]] = {}
    gate = threading.Barrier(6)

    def borrow(client: int) -> None:
        gate.wait()
        together[client] = draw(client)

    threads = [threading.Thread(target=borrow, args=(client,)) for client in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[client] for client in range(6)] == alone
    assert torch.equal(torch.get_rng_state(), before)
    # A thread that holds it may borrow it again, as a network does that is built while another is probed.
    with torch_default_stream(7, "probe"), torch_default_stream(7, "start model", client=2):
        assert float(torch.rand(())) == alone[2][0]
