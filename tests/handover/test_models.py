"""The models that a run ends with, as it keeps them and as they are got back."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from fedroam import Experiment, InputError, Interrupted
from fedroam.components import kinds
from fedroam.data import Dataset
from fedroam.handover import final_model
from fedroam.models import as_batch
from fedroam.recording import Run, damage, open_run
from fedroam.runner import run
from support.run_folders import of_before_there_was_a_manifest
from support.tiny import example, own_data, tiny

SHAPE = (2, 5, 7)


def learning(**settings: Any) -> Experiment:
    """Convolutions on images that are not square, with two channels."""
    own = {
        "data": own_data(SHAPE),
        "model": {"kind": "torch_module", "target": "support.convolutions:OwnConvolutions"},
    }
    return tiny(**{**own, "rounds": 2, **settings})


def dataset() -> Dataset:
    found: Dataset = own_data(SHAPE).load()  # type: ignore[attr-defined]
    return found


def accuracy(module: torch.nn.Module, data: Dataset) -> float:
    with torch.no_grad():
        answers = module(as_batch(torch.from_numpy(data.x_test)).contiguous()).argmax(1).numpy()
    return float((answers == data.y_test).mean())


def recorded(run: Run, client: int, column: str = "accuracy") -> float:
    last = run.clients[run.clients["round"] == run.status["rounds"]]
    return float(last.set_index("client")[column][client])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(learning(), tmp_path_factory.mktemp("done") / "run")


@pytest.mark.parametrize("kind", sorted(kinds("federation")))
def test_every_federation_hands_over_what_it_judged(kind: str, tmp_path: Path) -> None:
    """The first model of clients that can be judged, and the one that stands for all, where there is one."""
    settings = {
        "model": "mlp",
        "rounds": 3,
        "validation_share": 0.2,
        "data": {"kind": "digits", "test_share": 0.5},
    }
    done = run(tiny(federation=example("federation", kind), **settings), tmp_path / "run")
    data: Dataset = Experiment(data={"kind": "digits", "test_share": 0.5}).data.load()  # type: ignore[attr-defined]
    for client in (0, 3):
        expected = recorded(done, client)
        if np.isfinite(expected):
            assert accuracy(done.model(client=client), data) == pytest.approx(expected, abs=1e-12)
    mean = done.rounds["accuracy_mean_model"].iloc[-1]
    if np.isfinite(mean):
        assert accuracy(done.model("mean"), data) == pytest.approx(mean, abs=1e-12)
    else:
        with pytest.raises(InputError, match="no model 'mean'"):
            done.model("mean")


def test_a_second_model_of_each_client_goes_by_its_name(tmp_path: Path) -> None:
    done = run(learning(federation="ditto", rounds=3), tmp_path / "run")
    assert accuracy(done.model(client=1), dataset()) == recorded(done, 1)
    assert accuracy(done.model("personal", client=1), dataset()) == recorded(done, 1)
    assert accuracy(done.model("global"), dataset()) == recorded(done, 1, "accuracy_global")
    with pytest.raises(InputError, match=r"'personal' are 5 models: say whose, .* or .*'global'"):
        done.model()


def test_the_model_is_ready_to_be_used(done: Run) -> None:
    module = done.model(client=2)
    assert not module.training
    assert accuracy(module, dataset()) == recorded(done, 2)
    assert type(module).__name__ == "OwnConvolutions"
    for tensor in module.state_dict().values():
        assert tensor.is_contiguous()


def test_the_file_holds_torchs_names_shapes_and_order(done: Run) -> None:
    """Whoever reads it without fedroam finds weights of convolutions as torch writes them."""
    tensors = load_file(done.folder / "models.safetensors")
    for client in (0, 4):
        for name, value in done.model(client=client).state_dict().items():
            assert np.array_equal(tensors[f"own/{name}"][client], value.numpy())
    assert tensors["own/extractor.0.weight"].shape == (5, 6, 2, 2, 3)
    assert tensors["mean/head.weight"].shape == (1, 10, 120)


def test_a_model_that_all_share_is_kept_once(tmp_path: Path) -> None:
    done = run(learning(federation="fedavg"), tmp_path / "run")
    assert load_file(done.folder / "models.safetensors")["global/head.bias"].shape == (1, 10)
    assert accuracy(done.model(), dataset()) == recorded(done, 0)


def test_an_interrupted_run_ends_in_the_same_models(tmp_path: Path, done: Run) -> None:
    def stop(now: int, rounds: int, measurement: object) -> None:
        if now == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run(learning(), tmp_path / "run", observer=stop)
    with pytest.raises(InputError, match="keeps no models"):
        open_run(tmp_path / "run").model(client=0)
    with pytest.raises(InputError, match=r"is not finished \(round 1 of 2\)"):
        final_model(open_run(tmp_path / "run"), client=0)
    again = run(learning(), tmp_path / "run")
    name = "models.safetensors"
    assert (again.folder / name).read_bytes() == (done.folder / name).read_bytes()


def test_the_manifest_holds_their_sums(tmp_path: Path) -> None:
    done = run(learning(), tmp_path / "run")
    assert {"models.safetensors", "preprocessing.json"} <= done.status["files"].keys()
    path = done.folder / "models.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert damage(done.folder) == [f"{path}: damaged: its SHA-256 is not the one that run.json lists"]
    for take in (open_run(done.folder).model, lambda **which: final_model(open_run(done.folder), **which)):
        with pytest.raises(InputError, match="SHA-256 is not the one"):
            take(client=0)


def test_fewer_models_are_kept_where_that_is_asked_for(tmp_path: Path, done: Run) -> None:
    mean = run(learning(keep_models="mean"), tmp_path / "mean")
    assert mean.status["digest"] == done.status["digest"]
    assert accuracy(mean.model("mean"), dataset()) == mean.rounds["accuracy_mean_model"].iloc[-1]
    with pytest.raises(InputError, match=r"no model 'own'; there are: 'mean' \(.*keep_models\)"):
        mean.model(client=0)
    none = run(learning(keep_models="none"), tmp_path / "none")
    assert not (none.folder / "models.safetensors").exists()
    with pytest.raises(InputError, match="keeps no models"):
        none.model("mean")
    for lesser in (mean, none):  # the checkpoint has them all
        taken = final_model(lesser, client=3)
        assert taken.accuracy == recorded(done, 3)
        assert accuracy(taken.module, dataset()) == recorded(done, 3)
        assert "taken from" in taken.notes[0]


def test_a_folder_of_before_models_were_kept_gives_them_from_its_checkpoint(
    tmp_path: Path, done: Run
) -> None:
    old = run(learning(), tmp_path / "run").folder
    of_before_there_was_a_manifest(old)
    for name in ("models.safetensors", "preprocessing.json"):
        (old / name).unlink()
    text = (old / "experiment.toml").read_text()
    (old / "experiment.toml").write_text(text.replace('keep_models = "all"\n', ""))
    there = open_run(old)
    for which, client in ((None, 2), ("mean", None)):
        one, other = final_model(there, which, client), final_model(done, which, client)
        assert one.fed == other.fed
        assert one.accuracy == other.accuracy
        for name, value in other.module.state_dict().items():
            assert torch.equal(one.module.state_dict()[name], value)


def test_a_checkpoint_is_not_read_with_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = run(learning(keep_models="none"), tmp_path / "run")
    monkeypatch.setattr(Dataset, "fingerprint", property(lambda _: "f" * 64))
    with pytest.raises(InputError, match="needs the data it learnt from"):
        final_model(old, client=0)


@pytest.mark.parametrize(
    ("which", "client", "words"),
    [
        (None, 5, "client = 5: allowed is 0 to 4"),
        (None, -1, "client = -1: allowed is 0 to 4"),
        (None, None, "'own' are 5 models: say whose, a client from 0 to 4, or 'mean'"),
        ("global", None, "no model 'global'; there are: 'mean', 'own'"),
    ],
)
def test_a_model_that_there_is_not(done: Run, which: str | None, client: int | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        done.model(which, client=client)


def test_a_run_folder_imports_nothing(done: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings name a module: only one that has been imported already is used."""
    monkeypatch.delitem(sys.modules, "support.convolutions")
    with pytest.raises(
        InputError, match=r"import support.convolutions first .*--import support.convolutions"
    ):
        done.model(client=0)
    assert "support.convolutions" not in sys.modules


def test_values_of_another_network_are_refused(tmp_path: Path) -> None:
    done = run(learning(), tmp_path / "run")
    path = done.folder / "experiment.toml"
    facts = json.loads((done.folder / "run.json").read_text())
    assert facts["files"]["experiment.toml"]
    of_before_there_was_a_manifest(done.folder)
    path.write_text(
        path.read_text()
        .replace('target = "support.convolutions:OwnConvolutions"', "")
        .replace('kind = "torch_module"', 'kind = "mlp"')
        .replace("[model.arguments]", "")
    )
    with pytest.raises(InputError, match="is the model another one"):
        open_run(done.folder).model(client=0)
