"""Dropout: expectation, streams, threads, layouts, and the replacement of torch's layers."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedroam.errors import FedroamError, InputError
from fedroam.models import Dropout, draws, noise, own_dropout
from fedroam.randomness import torch_stream


def masks(layer, shape, stream, times=1):
    with noise(torch_stream(0, "dropout", client=stream)):
        return [layer(torch.ones(shape)) for _ in range(times)]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_values_and_expectation(p):
    (out,) = masks(Dropout(p), (200, 500), 0)
    kept = out[out != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)))
    share, n = len(kept) / out.numel(), out.numel()
    assert abs(share - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5


def test_evaluation_and_p_zero_draw_nothing_and_p_one_drops_all():
    x = torch.randn(3, 4, generator=torch_stream(0, "x"))
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    (out,) = masks(Dropout(1.0), (3, 4), 0)
    assert not out.any()


def test_without_a_stream_training_is_an_error_that_says_what_to_do():
    with pytest.raises(FedroamError, match="noise"):
        Dropout(0.5)(torch.ones(2))
    with noise(torch_stream(0, "dropout")):
        pass
    with pytest.raises(FedroamError):
        Dropout(0.5)(torch.ones(2))


def test_blocks_nest_and_end_on_errors():
    outer, inner = torch_stream(0, "outer"), torch_stream(0, "inner")
    layer, x = Dropout(0.5), torch.ones(1000)
    with noise(outer):
        with pytest.raises(RuntimeError), noise(inner):
            layer(x).backward()  # fails: nothing asks for gradients
        out = layer(x)
    with noise(torch_stream(0, "outer")):
        assert torch.equal(out, layer(x))


@given(st.floats(0.05, 0.95), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_same_stream_same_mask(p, shape, stream):
    assert torch.equal(masks(Dropout(p), shape, stream)[0], masks(Dropout(p), shape, stream)[0])


def test_streams_and_calls_differ():
    first, second = masks(Dropout(0.5), (1000,), 0, times=2)
    (other,) = masks(Dropout(0.5), (1000,), 1)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


def test_two_threads_do_not_disturb_each_other():
    layer, alone, together = Dropout(0.5), {}, {}
    start = threading.Barrier(2)

    def work(client, found, wait):
        if wait:
            start.wait()
        found[client] = masks(layer, (100, 50), client, times=50)

    for client in (0, 1):
        work(client, alone, False)
    threads = [threading.Thread(target=work, args=(c, together, True)) for c in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torch.equal(alone[0][0], alone[1][0])
    for client in (0, 1):
        assert all(torch.equal(a, b) for a, b in zip(alone[client], together[client], strict=True))


def test_a_thread_does_not_see_the_stream_of_another():
    found = []

    def work():
        try:
            Dropout(0.5)(torch.ones(2))
        except FedroamError as error:
            found.append(error)

    with noise(torch_stream(0, "dropout")):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(found) == 1


def test_number_of_torch_threads_does_not_matter():
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found += masks(Dropout(0.5), (1000, 300), 0)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize("channels", [False, True])
def test_layout_does_not_matter(channels):
    layer, x = Dropout(0.5, channels), torch.randn(4, 6, 5, 5, generator=torch_stream(0, "x"))
    found = []
    for form in (x, x.to(memory_format=torch.channels_last)):
        with noise(torch_stream(0, "dropout")):
            found.append(layer(form))
    assert torch.equal(*found)


def test_channels_fall_together():
    (out,) = masks(Dropout(0.5, channels=True), (50, 20, 3, 3), 0)
    per_channel = out.flatten(2)
    assert torch.equal(per_channel.amax(2), per_channel.amin(2))
    assert 0.4 < (per_channel[..., 0] == 0).float().mean() < 0.6
    (flat,) = masks(Dropout(0.5, channels=True), (50, 20), 0)
    assert torch.equal(flat, per_channel[..., 0])


def test_gradient_is_the_mask():
    x = torch.ones(1000, requires_grad=True)
    with noise(torch_stream(0, "dropout")):
        out = Dropout(0.25)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_clients_of_a_vmap_get_masks_of_their_own():
    with noise(torch_stream(0, "dropout")):
        out = torch.func.vmap(Dropout(0.5), randomness="different")(torch.ones(2, 1000))
    assert not torch.equal(out[0], out[1])
    assert set(out.unique().tolist()) == {0.0, 2.0}


def test_wrong_probability():
    with pytest.raises(InputError, match=r"1\.5, allowed is 0 to 1"):
        Dropout(1.5)


def test_own_dropout_replaces_every_layer_of_torch():
    shared = nn.Dropout(0.3)
    module = nn.ModuleDict(
        {
            "a": shared,
            "b": shared,
            "deep": nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout2d(0.4).eval())),
            "one": nn.Dropout1d(0.2),
        }
    )
    assert own_dropout(module) is module
    assert not any(isinstance(m, nn.modules.dropout._DropoutNd) for m in module.modules())
    assert module["a"] is module["b"]
    assert (module["a"].p, module["a"].channels, module["a"].training) == (0.3, False, True)
    inner = module["deep"][1][0]
    assert (inner.p, inner.channels, inner.training) == (0.4, True, False)
    assert module["one"].channels
    assert draws(module)
    assert isinstance(own_dropout(nn.Dropout(0.1)), Dropout)


def test_draws():
    assert draws(nn.Sequential(Dropout(0.1)))
    assert not draws(nn.Sequential(Dropout(0.0), nn.Linear(2, 2)))
