"""Bringing a node what it needs, over the system's ssh: its files, its key, and nobody else's."""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import subprocess
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Literal

from fedroam.deploy.site import enrolling
from fedroam.deploy.site.file import (
    AUTHORITY,
    CERTIFICATE,
    EXPERIMENT,
    FILE,
    KEY,
    NEXT_KEY,
    NODES,
    OWN_PART,
    read_site,
)
from fedroam.deploy.site.identity import DAYS, identity_of
from fedroam.errors import FedroamError, InputError, one_line
from fedroam.facts import read_text

HOST = r"([A-Za-z0-9._-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
PLACE = r"(/[A-Za-z0-9._-]+)+"
HOME = "/etc/fedroam"
PROGRAM = "/opt/fedroam/current/bin/fedroam"
PATIENCE = 120.0  # seconds
OF_SSH = 255  # its exit code where it has not reached the host, or was not let in
ARRIVING = ".arriving"  # below a node's folder, where files come before they take their places
Key = Literal["made there", "brought", "there before"]


def push(
    folder: Path,
    name: str,
    host: str,
    to: str = HOME,
    *,
    keep_key: bool = False,
    new_key: bool = False,
    program: str = PROGRAM,
    days: float = DAYS,
) -> Key:
    """Bring a node its part of a site; where its key is from.

    host: as ssh takes it, [USER@]HOST; to: the folder there. A node without a certificate, or with new_key any, makes
    its key there, by the fedroam that is installed there (program: its path), and is given a certificate for so many
    days: that key never leaves it. A key that was made here goes with the rest, and is deleted here once it is there
    (keep_key: it stays); a node whose key is not here any more gets the rest. What arrived is held against what was
    sent. Raises InputError where the site has no such node, or the arguments are none, FedroamError where ssh fails.
    """
    if host.startswith("-") or not re.fullmatch(HOST, host):
        raise InputError(f"{host!r}: is no host; allowed is [USER@]HOST, as ssh takes it")
    for option, what, path in (("--to", "folder", to), ("--program", "file", program)):
        if not re.fullmatch(PLACE, path) or ".." in path.split("/"):
            raise InputError(
                f"{option} {path!r}: allowed is a {what} from the root, of letters, digits, '.', '_', '-'"
            )
    node = read_site(folder / FILE).named(name)
    made_there = new_key or not node.serial
    if made_there:
        _enrol_there(folder, name, host, to, program, days)
    files = _files(folder, name)
    sums = {path: hashlib.sha256(body).hexdigest() for path, body in files.items()}
    own, home = f"{NODES}/{name}/{KEY}", f"{NODES}/{name}"
    # Paths come from `site.toml` and `use` of the experiment, whose names are letters, digits, '_' and '-'. Each
    # file takes its place at once: a node that reads it meanwhile finds the one before, or this one, and one that broke
    # off is none.
    new = f"{home}/{ARRIVING}"
    moves = " && ".join(f"mv -f {new}/{path} {path}" for path in reversed(files))
    script = (
        f"umask 077 && mkdir -p {to}/{new} && cd {to} && tar -xf - -C {new} && {moves} && rm -rf {new} && "
        f"{{ test -f {own} || test -f {home}/{NEXT_KEY}; }} && sha256sum {' '.join(files)}"
    )
    hint = ""
    if own not in files:
        hint = f"; its key is not here: fedroam site renew {folder} {name} makes another, or --new-key there"
    said = _over_ssh(host, script, files, hint).decode("utf-8", "replace")
    lines = (line.split(maxsplit=1) for line in said.splitlines())
    there = {words[1]: words[0] for words in lines if len(words) == 2}
    wrong = [path for path in files if there.get(path) != sums[path]]
    if wrong:
        raise FedroamError(f"{host}: {to}/{wrong[0]} is not what was sent")
    if own in files and not keep_key:
        (folder / own).unlink()
    return "made there" if made_there else "brought" if own in files else "there before"


def _enrol_there(folder: Path, name: str, host: str, to: str, program: str, days: float) -> None:
    """Let a node make its key where it is, and sign for it."""
    ticket = enrolling.allow(folder, name, hours=1.0)
    home = f"{NODES}/{name}"
    try:
        files = {f"{home}/{enrolling.TICKET}": ticket.read_bytes()}
        script = (
            f"umask 077 && mkdir -p {to} && cd {to} && tar -xf - && "
            f"{program} site request {to} {name} >&2 && cat {home}/{enrolling.REQUEST}"
        )
        asked = _over_ssh(
            host, script, files, f"; it makes its key by {program}, the fedroam there (--program)"
        )
        enrolling.sign_request(folder, name, asked, f"{host}: what it asks for", days)
    finally:
        enrolling.withdraw(folder, name)


def _over_ssh(host: str, script: str, files: dict[str, bytes], hint: str) -> bytes:
    """What a shell at a host says to a script that is given files as a tar archive. Raises FedroamError where it
    fails, with the hint, or ssh does, which has not come to it."""
    try:
        done = subprocess.run(
            # Whatever shell the user has there: this one is everywhere.
            ["ssh", host, f"sh -c {shlex.quote(script)}"],
            input=_packed(files),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        raise InputError("ssh: no such command on this machine; it brings nodes their files") from None
    except subprocess.TimeoutExpired:
        raise FedroamError(f"{host}: ssh has not ended within {PATIENCE:g} s") from None
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace").strip()) or "nothing"
        hint = "" if done.returncode == OF_SSH else hint
        raise FedroamError(f"{host}: exit code {done.returncode}, it said: {said[:300]}{hint}")
    return done.stdout


def _files(folder: Path, name: str) -> dict[str, bytes]:
    """What a node needs, by its place below the site's folder; without its key where that is not here any more."""
    node = read_site(folder / FILE).named(name)
    home = f"{NODES}/{name}"
    found = {}
    for path in (FILE, *_own_parts(folder), EXPERIMENT, AUTHORITY, f"{home}/{CERTIFICATE}", f"{home}/{KEY}"):
        try:
            found[path] = (folder / path).read_bytes()
        except FileNotFoundError:
            if not path.endswith(KEY):
                raise InputError(f"{folder / path}: no such file; the site was made with it") from None
    try:
        serial = identity_of(found[f"{home}/{CERTIFICATE}"]).serial
    except ValueError as error:
        raise InputError(f"{folder / home / CERTIFICATE}: is no certificate of a node ({error})") from None
    if serial != node.serial:
        raise InputError(f"{folder / home / CERTIFICATE}: is not the one that {FILE} lists for {name}")
    return found


def _own_parts(folder: Path) -> list[str]:
    """The files of the user's own parts that a site's experiment names. Raises InputError where they are not the
    site's."""
    path = folder / EXPERIMENT
    try:
        given = tomllib.loads(read_text(path)).get("use", [])
    except FileNotFoundError:
        return []  # which is told of where it is read
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(str(error))})") from None
    own = [given] if isinstance(given, str) else given
    for each in own:
        if not isinstance(each, str) or not re.fullmatch(OWN_PART, each):
            raise InputError(
                f"{path}: use = {each!r}: allowed are files beside it, of letters, digits, '_' and '-', before .py"
            )
    return list(own)


def _packed(files: dict[str, bytes]) -> bytes:
    """Files as a tar archive, for their owner alone."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        for path, data in files.items():
            facts = tarfile.TarInfo(path)
            facts.size, facts.mode, facts.mtime = len(data), 0o600, time.time()
            archive.addfile(facts, io.BytesIO(data))
    return body.getvalue()
