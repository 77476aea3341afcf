"""Nodes that make their own keys: who has the ticket of a name gets the certificate of that name, and nothing more."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import AttributeOID, NameOID

from fedroam.cli import main
from fedroam.deploy.site import enrolling, file
from fedroam.deploy.site.enrolling import AWAITED, LARGEST, REQUEST, TICKET, allow, request_certificate, sign
from fedroam.deploy.site.file import CERTIFICATE, FILE, KEY, NEXT_KEY, NODES, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import credentials, identity_of, revoke
from fedroam.deploy.site.push import push
from fedroam.errors import FedroamError, InputError
from fedroam.runner import run
from fedroam.writing import take_lock
from support.losing import same_runs
from support.sites import LocalSite
from support.tiny import tiny

EXPERIMENT = tiny(federation="fedavg", clients=2)
NAME = "client-00"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A site whose nodes have no keys yet."""
    found_site(tmp_path / "lab", EXPERIMENT, address="127.0.0.1:1", keys_at_nodes=True)
    return tmp_path / "lab"


def asks(lab: Path, board: Path, name: str = NAME) -> Path:
    """What a node asks for that has been given its ticket: its request, on its board."""
    home = board / NODES / name
    home.mkdir(parents=True, exist_ok=True)
    shutil.move(allow(lab, name), home / TICKET)
    return request_certificate(board, name)


def everything(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def forged(
    path: Path, key: Any = None, name: str | None = NAME, proof: bytes | None = None, **more: Any
) -> Path:
    """A request of one's own making; more: extension, a second name."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in more.get("also", ())]
    found = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if proof is not None:
        found = found.add_attribute(AttributeOID.CHALLENGE_PASSWORD, proof)
    for extension in more.get("extensions", ()):
        found = found.add_extension(extension, critical=False)
    signed = found.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return path


def proof_of(lab: Path, key: Any, name: str = NAME) -> bytes:
    """What somebody who has stolen the ticket could say."""
    return enrolling._ticket(lab / AWAITED / f"{name}.toml").proof(key.public_key())


def test_a_key_stays_where_it_was_made(lab: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    request = asks(lab, board)
    assert {path.name for path in request.parent.iterdir()} == {NEXT_KEY, REQUEST}
    assert stat.S_IMODE((request.parent / NEXT_KEY).stat().st_mode) == 0o600
    secret = (request.parent / NEXT_KEY).read_bytes()
    sign(lab, NAME, request, 1.0)
    assert all(secret not in found for found in everything(lab).values())
    assert not (lab / NODES / NAME / KEY).exists()
    assert not (lab / AWAITED / f"{NAME}.toml").exists(), "the ticket is used up"
    site = read_site(lab / FILE)
    own = identity_of((lab / NODES / NAME / CERTIFICATE).read_bytes())
    node = site.node(NAME)
    assert node is not None
    assert (own.role, own.name, own.serial) == ("client", NAME, node.serial)
    for path in (FILE, "authority.pem", f"{NODES}/{NAME}/{CERTIFICATE}"):
        shutil.copy(lab / path, board / path)
    assert credentials(board, site, NAME).key == secret


def test_an_old_key_is_good_until_the_new_certificate_is_there(lab: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    for path in (FILE, "authority.pem"):
        board.mkdir(exist_ok=True)
        shutil.copy(lab / path, board / path)
    keys = []
    for _ in range(3):
        before = credentials(board, read_site(lab / FILE), NAME).key if keys else b""
        sign(lab, NAME, asks(lab, board), 1.0)
        if keys:
            assert credentials(board, read_site(lab / FILE), NAME).key == before
        shutil.copy(lab / NODES / NAME / CERTIFICATE, board / NODES / NAME / CERTIFICATE)
        keys.append(credentials(board, read_site(lab / FILE), NAME).key)
    assert len(set(keys)) == 3
    (board / NODES / NAME / NEXT_KEY).write_bytes(before)
    (board / NODES / NAME / KEY).write_bytes(before)
    with pytest.raises(InputError, match=r"key.pem: is not the key of certificate.pem"):
        credentials(board, read_site(lab / FILE), NAME)


def test_a_key_that_was_here_goes_when_another_is_signed_for(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    found_site(lab, EXPERIMENT, address="127.0.0.1:1")
    request = asks(lab, tmp_path / "board")
    assert (lab / NODES / NAME / KEY).exists(), "good until then"
    sign(lab, NAME, request, 1.0)
    assert not (lab / NODES / NAME / KEY).exists()
    # In one folder, as on one machine, the key that was asked with stays.
    allow(lab, "client-01")
    sign(lab, "client-01", request_certificate(lab, "client-01"), 1.0)
    assert (lab / NODES / "client-01" / NEXT_KEY).exists()
    credentials(lab, read_site(lab / FILE), "client-01")


def later(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours)

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return now

    monkeypatch.setattr("fedroam.deploy.site.enrolling.datetime.datetime", Later)


SANS = x509.SubjectAlternativeName([x509.UniformResourceIdentifier("fedroam://site/server/client-00")])
Attack = Callable[[Path, Path, pytest.MonkeyPatch], Path]


def a_role(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    return forged(honest, key, proof=proof_of(lab, key), extensions=[SANS])


def an_authority(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    return forged(honest, key, proof=proof_of(lab, key), extensions=[x509.BasicConstraints(True, None)])


def another_name(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    return forged(honest, key, name="server", proof=proof_of(lab, key))


def two_names(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    return forged(honest, key, proof=proof_of(lab, key), also=["server\n\x1b[31m"])


def no_name(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    return forged(honest, name=None)


def no_ticket(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    return forged(honest)


def another_key(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    """Who reads a request puts a key of his own into it."""
    (proof,) = [each.value for each in x509.load_pem_x509_csr(honest.read_bytes()).attributes]
    return forged(honest, proof=proof)


def of_another_node(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    """With the ticket of client-01, which asks for client-00."""
    allow(lab, "client-01")
    key = ec.generate_private_key(ec.SECP256R1())
    return forged(honest, key, proof=proof_of(lab, key, "client-01"))


def an_older_ticket(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    allow(lab, NAME)
    return honest


def too_late(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    later(patch, enrolling.HOURS + 0.1)
    return honest


def replayed(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    sign(lab, NAME, honest, 1.0)
    return honest


def replayed_with_a_new_ticket(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    sign(lab, NAME, honest, 1.0)
    allow(lab, NAME)
    return honest


def a_copied_card(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    sign(lab, NAME, honest, 1.0)
    key = serialization.load_pem_private_key((honest.parent / NEXT_KEY).read_bytes(), None)
    allow(lab, "client-01")
    return forged(honest, key, name="client-01", proof=proof_of(lab, key, "client-01"))


def rsa_key(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    return forged(honest, rsa.generate_private_key(65537, 2048), proof=b"x")


def another_curve(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    return forged(honest, ec.generate_private_key(ec.SECP384R1()), proof=b"x")


def changed_bits(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    request = x509.load_pem_x509_csr(honest.read_bytes())
    der = bytearray(request.public_bytes(serialization.Encoding.DER))
    der[der.index(NAME.encode()) + len(NAME) - 1] ^= 1  # client-01, by one bit
    changed = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)
    honest.write_bytes(changed)
    return honest


def written(data: bytes) -> Attack:
    def attack(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
        honest.write_bytes(data)
        return honest

    return attack


def a_certificate(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    shutil.copy(lab / NODES / "server" / CERTIFICATE, honest)
    return honest


def two(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    honest.write_bytes(2 * honest.read_bytes())
    return honest


def cut(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    honest.write_bytes(honest.read_bytes()[:-100])
    return honest


def endless(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    return Path("/dev/zero")


def nothing(lab: Path, honest: Path, patch: pytest.MonkeyPatch) -> Path:
    return honest.parent / "no-such.pem"


ATTACKS: dict[Attack, str] = {
    a_role: r"asks for more than a name \(2.5.29.17\): what a node is, site.toml alone says",
    an_authority: r"asks for more than a name",
    another_name: r"asks for 'server', allowed here is 'client-00'",
    two_names: r"asks for 'client-00, server .*', allowed here is 'client-00' and no more",
    no_name: "asks for 'nobody'",
    no_ticket: "is not made with the present ticket of client-00",
    another_key: "is not made with the present ticket",
    of_another_node: "is not made with the present ticket",
    an_older_ticket: "is not made with the present ticket",
    too_late: "the ticket of client-00 was good until .*: fedroam site enrol .* gives another",
    replayed: "client-00 is not awaited, or has enrolled already",
    replayed_with_a_new_ticket: "is not made with the present ticket",
    a_copied_card: "its key is that of client-00: each node makes one of its own",
    rsa_key: "has a key of another kind; keys are on the curve P-256",
    another_curve: "has a key of another kind",
    changed_bits: "is not signed with its own key",
    written(b""): "is not one certificate signing request",
    written(b"\xff" * 1000): "is not one certificate signing request",
    written(
        b"-----BEGIN CERTIFICATE REQUEST-----\n" + b"A" * LARGEST
    ): f"larger than a request may be, {LARGEST}",
    written(
        b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
    ): "is no certificate",
    a_certificate: "is no certificate signing request",
    two: "is not one certificate signing request",
    cut: "is no certificate signing request",
    endless: "larger than a request may be",
    nothing: r"no-such.pem: cannot be read \(No such file",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_what_may_not_be_granted_is_refused_in_a_line_and_changes_nothing(
    attack: Attack, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = attack(lab, asks(lab, tmp_path / "board"), monkeypatch)
    name = "client-01" if attack is a_copied_card else NAME
    before = everything(lab)
    with pytest.raises(InputError, match=ATTACKS[attack]) as caught:
        sign(lab, name, request, 1.0)
    assert str(caught.value).startswith(str(request))
    assert str(caught.value).isprintable()
    assert everything(lab) == before
    assert main(["site", "sign", str(lab), name, str(request)]) == 2
    assert everything(lab) == before


def test_a_node_asks_with_its_own_ticket_alone(lab: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    with pytest.raises(InputError, match=r"ticket.toml: no such file; fedroam site enrol DIR client-00"):
        request_certificate(board, NAME)
    with pytest.raises(InputError, match="is no name of a node"):
        request_certificate(board, "../../root")
    home = board / NODES / NAME
    home.mkdir(parents=True)
    shutil.copy(allow(lab, "client-01"), home / TICKET)
    with pytest.raises(InputError, match="is the ticket of client-01, not of client-00"):
        request_certificate(board, NAME)
    for text in ("", "x = 1", "secret = 1", "[" * 5000, "\0", "a" * 20_000):
        (home / TICKET).write_text(text)
        with pytest.raises(InputError, match=r"ticket.toml: is no ticket"):
            request_certificate(board, NAME)
    assert {path.name for path in home.iterdir()} == {TICKET}, "nothing is made of it"
    with pytest.raises(InputError, match="client-09"):
        allow(lab, "client-09")


def test_the_commands_lead_from_one_to_the_next(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board"
    assert main(["site", "enrol", str(lab), NAME, "--hours", "0"]) == 2
    assert main(["site", "enrol", str(lab), NAME]) == 0
    ticket = lab / NODES / NAME / TICKET
    assert str(ticket) in capsys.readouterr().out.replace("\n", "")
    assert stat.S_IMODE(ticket.stat().st_mode) == 0o600
    shutil.copytree(lab / NODES / NAME, board / NODES / NAME)
    assert main(["site", "request", str(board), NAME]) == 0
    request = board / NODES / NAME / REQUEST
    assert main(["site", "sign", str(lab), NAME, str(request), "--days", "2"]) == 0
    ends = identity_of((lab / NODES / NAME / CERTIFICATE).read_bytes()).ends
    left = ends - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=1) < left <= datetime.timedelta(days=2)
    assert not ticket.exists()
    assert tomllib.loads((lab / FILE).read_text())["nodes"][1]["serial"]


KEYS = """
import sys
from fedroam.cli import main
for words in sys.stdin:
    assert main(words.split()) == 0
print("torch" in sys.modules)
"""


def test_who_only_makes_keys_need_not_load_torch(lab: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    (board / NODES).mkdir(parents=True)
    (board / NODES / NAME).symlink_to(lab / NODES / NAME)
    request = board / NODES / NAME / REQUEST
    words = [f"enrol {lab} {NAME}", f"request {board} {NAME}", f"sign {lab} {NAME} {request}"]
    words += [f"renew {lab} {NAME}", f"revoke {lab} {NAME}", f"units {lab}"]
    done = subprocess.run(
        [sys.executable, "-c", KEYS],
        input="".join(f"site {each}\n" for each in words),
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


PROGRAM = """#!/bin/sh
exec {python} -m fedroam "$@"
"""
SSH = """#!/bin/sh
echo "$2" >> {log}
{before}
sh -c "$2"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An ssh that stays here, with a fedroam there; the log of what was asked of it."""
    tools, log = tmp_path / "bin", tmp_path / "ssh.log"
    tools.mkdir()
    (tools / "fedroam").write_text(PROGRAM.format(python=sys.executable))
    (tools / "fedroam").chmod(0o755)

    def put(before: str = "") -> Path:
        (tools / "ssh").write_text(SSH.format(log=log, before=before))
        (tools / "ssh").chmod(0o755)
        return log

    put()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return put


def test_a_push_has_the_key_made_there(lab: Path, tmp_path: Path, ssh: Callable[..., Path]) -> None:
    there, program = tmp_path / "device" / "fedroam", str(tmp_path / "bin" / "fedroam")
    assert push(lab, NAME, "pi@pi-00", str(there), program=program) == "made there"
    site = read_site(lab / FILE)
    first = credentials(there, site, NAME).key
    assert all(first not in found for found in everything(lab).values())
    assert not list(lab.rglob(TICKET)) + list((lab / AWAITED).iterdir())
    assert push(lab, NAME, "pi@pi-00", str(there), program=program) == "there before"
    assert push(lab, NAME, "pi@pi-00", str(there), program=program, new_key=True) == "made there"
    second = credentials(there, read_site(lab / FILE), NAME).key
    assert second != first
    before = everything(lab)
    with pytest.raises(FedroamError, match=r"exit code 127, it said: .*\(--program\)"):
        push(lab, "client-01", "pi@pi-01", str(there), program="/nowhere/fedroam")
    assert everything(lab) == before
    ssh("cat > /dev/null; echo hello; exit 0")  # a host that does something else
    with pytest.raises(
        InputError, match=r"pi@pi-01: what it asks for: is not one certificate signing request"
    ):
        push(lab, "client-01", "pi@pi-01", str(there), program=program)
    assert everything(lab) == before
    with pytest.raises(InputError, match="--program 'x; reboot': allowed is a file from the root"):
        push(lab, "client-01", "pi@pi-01", str(there), program="x; reboot")


def test_nodes_that_made_their_keys_learn_together(tmp_path: Path) -> None:
    experiment = tiny(federation="mohawk", clients=2, rounds=2, evaluate_every=1, mobility="static",
                      access_points={"kind": "grid", "columns": 1, "rows": 1})  # fmt: skip
    found_site(
        tmp_path / "site", experiment, address="127.0.0.1:1", keys_at_nodes=True, listening="127.0.0.1:0"
    )
    site = LocalSite(tmp_path / "site", experiment)
    for node in read_site(site.folder / FILE).holders.values():
        allow(site.folder, node.name)
        sign(site.folder, node.name, request_certificate(site.folder, node.name), 1.0)
    network = site.run(tmp_path / "network")
    assert site.lines == site.heard == []
    same_runs(network, run(experiment, tmp_path / "simulated"))


def test_changes_side_by_side_lose_nothing(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = {name: asks(lab, tmp_path / "board", name) for name in (NAME, "client-01")}
    begun, others = threading.Event(), ThreadPoolExecutor(1)
    present = enrolling.certified

    def slow(*given: Any) -> Any:
        """While one request is being signed, somebody comes with the other."""
        if begun.is_set():
            return present(*given)
        begun.set()
        other = others.submit(sign, lab, "client-01", requests["client-01"], 1)
        with contextlib.suppress(TimeoutError):  # it waits for this one, as long as need be
            other.result(timeout=0.3)
        return present(*given)

    monkeypatch.setattr(enrolling, "certified", slow)
    with others:
        sign(lab, NAME, requests[NAME], 1)
    monkeypatch.undo()
    site = read_site(lab / FILE)
    for name in requests:
        certificate = (lab / NODES / name / CERTIFICATE).read_bytes()
        assert site.named(name).serial == identity_of(certificate).serial
    with monkeypatch.context() as short, take_lock(lab / ".lock") as lock:  # type: ignore[union-attr]
        assert lock is not None
        short.setattr(file, "CHANGING", 0.0)
        with pytest.raises(InputError, match="another process has been changing it"):
            revoke(lab, NAME)
    revoke(lab, NAME)
    assert read_site(lab / FILE).named(NAME).revoked
