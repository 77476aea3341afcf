"""Exported models predict what the run recorded, also where there is no fedroam."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedroam import Experiment, InputError
from fedroam.data import Dataset
from fedroam.errors import MissingExtraError
from fedroam.handover import FORMATS, export_model, final_model, predict
from fedroam.handover import export as exporting
from fedroam.recording import Run
from fedroam.runner import run
from support.commands import Commands, contents
from support.tiny import own_data, tiny

SHAPE = (2, 5, 7)
NETWORK = {"kind": "torch_module", "target": "support.convolutions:OwnConvolutions"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Convolutions of the fast engine, which computes in another order of dimensions than torch's."""
    settings: dict[str, Any] = {"data": own_data(SHAPE), "model": NETWORK, "engine": "cpu"}
    return run(tiny(rounds=4, **settings), tmp_path_factory.mktemp("images") / "run")


@pytest.fixture(scope="module")
def exported(images: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Client 3's model in every format."""
    home = tmp_path_factory.mktemp("exported")
    model = final_model(images, client=3)
    for to in FORMATS:
        path = export_model(model, to, home / to)  # type: ignore[arg-type]
        assert path.parent == home / to
        assert {p.name for p in path.parent.iterdir()} == {path.name, "model.json", "preprocessing.json"}
    return home


def test_a_process_without_fedroam_predicts_what_the_run_recorded(
    images: Run, exported: Path, tmp_path: Path
) -> None:
    """Plain torch (values into the user's own class, and TorchScript) and ONNX Runtime: each prediction, and so the
    accuracy."""
    data: Dataset = own_data(SHAPE).load()  # type: ignore[attr-defined]
    # `memory` without normalisation: values are as given, channels first.
    np.save(tmp_path / "raw.npy", data.x_test.transpose(0, 3, 1, 2))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("plain.py")), str(exported), str(tmp_path / "raw.npy")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers.keys() == FORMATS.keys()
    x = torch.from_numpy(data.x_test).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = images.model(client=3)(x).argmax(1).tolist()
    last = images.clients[images.clients["round"] == 4].set_index("client")
    for to, found in answers.items():
        assert found == expected, to
        assert float(np.mean(np.array(found) == data.y_test)) == last["accuracy"][3]


@pytest.mark.parametrize("to", ["safetensors", "onnx"])
def test_predict_gives_the_same_answers(images: Run, exported: Path, tmp_path: Path, to: str) -> None:
    data: Dataset = own_data(SHAPE).load()  # type: ignore[attr-defined]
    raw = data.x_test.transpose(0, 3, 1, 2)  # as they were given
    np.save(tmp_path / "raw.npy", raw)
    with torch.no_grad():
        logits = images.model(client=3)(torch.from_numpy(raw))
    found = predict(exported / to, tmp_path / "raw.npy")
    assert found.answers.tolist() == logits.argmax(1).tolist()
    np.testing.assert_allclose(found.probabilities, logits.double().softmax(1), atol=1e-6)
    flat = pd.DataFrame(raw.reshape(len(raw), -1)).assign(label=data.y_test)
    flat.columns = [str(name) for name in flat]
    flat.to_csv(tmp_path / "raw.csv", index=False)
    again = predict(exported / to, tmp_path / "raw.csv")
    assert again.answers.tolist() == found.answers.tolist()
    assert again.correct is not None
    last = images.clients[images.clients["round"] == 4].set_index("client")
    assert again.correct.mean() == last["accuracy"][3]


def test_values_of_arrays_with_something_else_between_them(exported: Path, tmp_path: Path) -> None:
    wide = math.prod(SHAPE)
    header, row = (";".join(str(k) for k in range(n, wide + n)) for n in (0, 1))
    (tmp_path / "semi.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(
        InputError, match=r"semi.csv, line 1: one column, .* if ';' does, say --separator ';'$"
    ):
        predict(exported / "safetensors", tmp_path / "semi.csv")
    assert len(predict(exported / "safetensors", tmp_path / "semi.csv", separator=";").answers) == 1
    np.save(tmp_path / "raw.npy", own_data(SHAPE).load().x_test)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"raw.npy: separator = ';' has no meaning for .npy"):
        predict(exported / "safetensors", tmp_path / "raw.npy", separator=";")


def test_what_goes_with_a_model(images: Run, exported: Path) -> None:
    facts = json.loads((exported / "onnx" / "model.json").read_text())
    assert (facts["which"], facts["client"], facts["to"]) == ("own", 3, "onnx")
    assert facts["accuracy"] == images.clients.set_index(["round", "client"])["accuracy"][4, 3]
    assert facts["run"]["digest"] == images.status["digest"]
    assert (exported / "onnx" / "preprocessing.json").read_bytes() == (
        images.folder / "preprocessing.json"
    ).read_bytes()


@pytest.mark.parametrize("to", ["state_dict", "torchscript"])
def test_what_could_run_code_is_not_read(exported: Path, tmp_path: Path, to: str) -> None:
    np.save(tmp_path / "raw.npy", np.zeros((1, 2, 5, 7)))
    with pytest.raises(InputError, match="can run code when it is read; predict reads safetensors and onnx"):
        predict(exported / to, tmp_path / "raw.npy")


def test_a_damaged_or_foreign_model_is_refused(exported: Path, tmp_path: Path) -> None:
    import shutil

    np.save(tmp_path / "raw.npy", np.zeros((1, 2, 5, 7)))
    for to in ("safetensors", "onnx"):
        home = tmp_path / to
        shutil.copytree(exported / to, home)
        facts = json.loads((home / "model.json").read_text())
        path = home / facts["file"]
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        with pytest.raises(InputError, match=r"SHA-256 is not the one that model\.json says"):
            predict(home, tmp_path / "raw.npy")
        for key, value in {"file": "../model.onnx", "format": 2, "to": "pickle", "client": -1}.items():
            (home / "model.json").write_text(json.dumps({**facts, key: value}))
            with pytest.raises(InputError, match=rf"model\.json: damaged: {key}"):
                predict(home, tmp_path / "raw.npy")
    with pytest.raises(InputError, match=r"model\.json: missing"):
        predict(tmp_path, tmp_path / "raw.npy")


def test_a_model_file_imports_nothing(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "raw.npy", np.zeros((1, 2, 5, 7)))
    monkeypatch.delitem(sys.modules, "support.convolutions")
    with pytest.raises(InputError, match=r"import support\.convolutions first"):
        predict(exported / "safetensors", tmp_path / "raw.npy")
    predict(exported / "onnx", tmp_path / "raw.npy")  # needs no module
    assert "support.convolutions" not in sys.modules


@pytest.mark.parametrize("to", ["onnx", "torchscript"])
def test_a_graph_that_computes_something_else_is_not_written(tmp_path: Path, to: Any) -> None:
    model = {"kind": "torch_module", "target": "support.convolutions:BatchDependent"}
    done = run(tiny(rounds=1, data=own_data(SHAPE), model=model), tmp_path / "run")
    with pytest.raises(InputError, match=rf"--to {to}: .*safetensors and state_dict hold its values alone"):
        export_model(final_model(done, client=0), to, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export_model(final_model(done, client=0), "safetensors", tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(images: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder; choose another --out"):
        export_model(final_model(images, client=0), "safetensors", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_without_onnx_the_message_is_the_command(
    images: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "ONNX_NEEDS", ("a_package_that_nobody_has",))
    with pytest.raises(
        MissingExtraError, match=r"--to onnx needs .* pip install -c constraints\.txt '\.\[onnx\]'"
    ):
        export_model(final_model(images, client=0), "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- tables, on the command line ------------------------------------------------------------------------------------


def table(path: Path, rows: int = 240) -> pd.DataFrame:
    """Three classes that an amount, a temperature and a colour tell apart, more or less."""
    draw = np.random.default_rng(4)
    y = np.arange(rows) % 3
    frame = pd.DataFrame(
        {
            "amount": draw.normal(1000 * y, 900),
            "colour": np.array(["red", "green", "blue"])[(y + (draw.random(rows) < 0.3)) % 3],
            "degrees": draw.normal(20 - y, 1),
            "what": np.array(["ham", "spam", "jam"])[y],
        }
    )
    frame.to_csv(path, index=False)
    return frame


@pytest.fixture
def spam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    """A folder with a finished run of FedAvg on `mine.csv`, judged on `test.csv`."""
    monkeypatch.chdir(tmp_path)
    frame = table(tmp_path / "mine.csv")
    frame.iloc[:200].to_csv("mine.csv", index=False)
    frame.iloc[200:].to_csv("test.csv", index=False)
    data = {
        "kind": "csv",
        "path": "mine.csv",
        "test_path": "test.csv",
        "label": "what",
        "categorical": ("colour",),
    }
    made: Experiment = tiny(rounds=6, data=data, model="mlp", federation="fedavg", engine="cpu")
    (tmp_path / "spam.toml").write_text(made.toml())
    call = Commands(tmp_path, capsys)
    assert call("run", "spam.toml", "--out", "out", "--no-report", "--quiet").code == 0
    return call


@pytest.mark.parametrize("to", ["safetensors", "onnx"])
def test_from_a_run_to_predictions_of_new_rows(spam: Commands, tmp_path: Path, to: str) -> None:
    answer = spam("export", "out", "--to", to)
    assert answer.code == 0, answer.err
    home = f"experiment-seed-0-global-{to}"
    accuracy = Run(tmp_path / "out" / "seed-0").rounds["accuracy"].iloc[-1]
    assert answer.out.startswith(f"accuracy that the run recorded: {accuracy:.4f}\nmodel: {home}/")
    answer = spam("predict", home, "test.csv")
    assert answer.code == 0, answer.err
    hits = round(accuracy * 40)
    assert answer.err == f"accuracy: {accuracy:.4f} ({hits} of 40 rows)\n"
    # Rows without a class, columns in another order and one more: by name all the same.
    rows = pd.read_csv("test.csv")[["degrees", "colour", "amount"]].assign(extra=1)
    rows.to_csv("new.csv", index=False)
    assert spam("predict", home, "new.csv", "--out", "said.csv", "--probabilities").out == (
        "predictions: said.csv (40 rows)\n"
    )
    said = pd.read_csv("said.csv")
    assert "\n".join(answer.out.splitlines()[1:]) == "\n".join(
        f"{row},{name},{p!r}"
        for row, name, p in zip(said["row"], said["class"], said["probability"], strict=True)
    )
    assert int((said["class"] == pd.read_csv("test.csv")["what"]).sum()) == hits
    np.testing.assert_allclose(said[["p(ham)", "p(jam)", "p(spam)"]].sum(axis=1), 1)


def test_predictions_are_not_written_over_what_they_are_made_of(spam: Commands, tmp_path: Path) -> None:
    assert spam("export", "out", "--out", "model").code == 0
    before = contents(tmp_path)
    for place in ("test.csv", "./test.csv", *(f"model/{path.name}" for path in Path("model").iterdir())):
        answer = spam("predict", "model", "test.csv", "--out", place)
        told = f"error: --out {place}: is read by this command; allowed is another file\n"
        assert (answer.code, answer.err) == (2, told)
    assert spam("predict", "model", "test.csv", "--out", "out/seed-0/run.json").code == 2
    told = "error: out/model.json: missing; allowed is a folder that fedroam export wrote\n"
    assert spam("predict", "out", "test.csv").err == told
    assert contents(tmp_path) == before


def test_what_is_odd_in_new_rows_is_told(spam: Commands) -> None:
    assert spam("export", "out").code == 0
    home = "experiment-seed-0-global-safetensors"
    rows = pd.read_csv("test.csv")
    rows.assign(colour="mauve", what="bread").to_csv("odd.csv", index=False)
    answer = spam("predict", home, "odd.csv")
    assert answer.code == 0
    assert "column 'colour' holds values that were not learnt from (mauve)" in answer.err
    assert "classes that the model does not know count as wrong answers: bread" in answer.err
    assert "accuracy: 0.0000 (0 of 40 rows)" in answer.err
    for frame, words in (
        (rows.drop(columns="degrees"), "bad.csv: has no column 'degrees', but amount, "),
        (rows.assign(amount="much"), "bad.csv, line 2, column 'amount'"),
        (rows.iloc[:0], "bad.csv: a header but no rows"),
    ):
        frame.to_csv("bad.csv", index=False)
        answer = spam("predict", home, "bad.csv")
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err
    answer = spam("predict", home, "test.csv", "--label", "who")
    assert "test.csv: has no column 'who'" in answer.err
    np.save("rows.npy", np.zeros((2, 5)))
    assert "the model reads tables: allowed is a CSV file" in spam("predict", home, "rows.npy").err


def test_a_table_with_something_else_between_cells(spam: Commands) -> None:
    assert spam("export", "out", "--out", "model").code == 0
    pd.read_csv("test.csv").to_csv("semi.csv", index=False, sep=";")
    before = contents(spam.folder)
    answer = spam("predict", "model", "semi.csv", "--out", "said.csv")
    assert (answer.code, answer.out, answer.err) == (
        2,
        "",
        "error: semi.csv, line 1: one column, 'amount;colour;degrees;what', where ',' stands between cells; if ';' "
        "does, say --separator ';'\n",
    )
    answer = spam("predict", "model", "semi.csv", "--separator", ";;")
    assert (answer.code, answer.err) == (
        2,
        "error: separator = ';;': allowed is one character, e.g. , or ; or a tab\n",
    )
    assert contents(spam.folder) == before
    plain, semi = (
        spam("predict", "model", "test.csv"),
        spam("predict", "model", "semi.csv", "--separator", ";"),
    )
    assert (semi.code, semi.out, semi.err) == (0, plain.out, plain.err)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("export", "out", "--to", "pickle"),
            "--to 'pickle': allowed are safetensors, state_dict, onnx, torchscript",
        ),
        (("export", "nowhere"), "nowhere: no such folder"),
        (("export", "out", "--client", "7"), "client = 7: allowed is 0 to 4"),
        (("export", "out", "--client", "best"), "no model 'best'; there are: 'global', 'mean'"),
        (("export", "out", "--import", "no_such_module"), "--import no_such_module: ModuleNotFoundError"),
        (("predict", "out", "test.csv"), "model.json: missing"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(spam: Commands, words: tuple[str, ...], told: str) -> None:
    answer = spam(*words)
    assert answer.code == 2
    assert told in answer.err
    assert len(answer.err.splitlines()) == 1


def test_several_runs_are_no_run(spam: Commands) -> None:
    assert spam("run", "spam.toml", "--seeds", "2", "--out", "out", "--no-report", "--quiet").code == 0
    assert "out: holds 2 runs, allowed is one, such as out/seed-0" in spam("export", "out").err
