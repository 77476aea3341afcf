"""Bringing a node what it needs, over the system's ssh: its files, its key, and nobody else's."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import tarfile
from pathlib import Path

from fedroam.deploy.site.file import AUTHORITY, CERTIFICATE, EXPERIMENT, FILE, KEY, NODES, read_site
from fedroam.deploy.site.identity import identity_of
from fedroam.errors import FedroamError, InputError, one_line, unknown

HOST = r"([A-Za-z0-9._-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
PLACE = r"(/[A-Za-z0-9._-]+)+"
HOME = "/etc/fedroam"
PATIENCE = 120.0  # seconds


def push(folder: Path, name: str, host: str, to: str = HOME, *, keep_key: bool = False) -> bool:
    """Bring a node its part of a site; whether its key went with it.

    host: as ssh takes it, [USER@]HOST; to: the folder there. Once it is there the key is deleted here, so that only the
    node has it (keep_key: it stays); a node whose key is not here any more gets the rest. What arrived is held against
    what was sent. Raises InputError where the site has no such node, or the arguments are none, FedroamError where ssh
    fails.
    """
    if host.startswith("-") or not re.fullmatch(HOST, host):
        raise InputError(f"{host!r}: is no host; allowed is [USER@]HOST, as ssh takes it")
    if not re.fullmatch(PLACE, to) or ".." in to.split("/"):
        raise InputError(f"--to {to!r}: allowed is a folder from the root, of letters, digits, '.', '_', '-'")
    files = _files(folder, name)
    sums = {path: hashlib.sha256(body).hexdigest() for path, body in files.items()}
    own = f"{NODES}/{name}/{KEY}"
    # Nothing of a path comes from anybody but `site.toml`, whose names are letters, digits and '-'.
    script = (
        f"umask 077 && mkdir -p {to} && cd {to} && tar -xf - && test -f {own} && sha256sum {' '.join(files)}"
    )
    try:
        done = subprocess.run(
            ["ssh", host, script], input=_packed(files), capture_output=True, timeout=PATIENCE, check=False
        )
    except FileNotFoundError:
        raise InputError("ssh: no such command on this machine; it brings nodes their files") from None
    except subprocess.TimeoutExpired:
        raise FedroamError(f"{host}: ssh has not ended within {PATIENCE:g} s") from None
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace").strip()) or "nothing"
        hint = (
            "" if own in files else f"; its key is not here: fedroam site renew {folder} {name} makes another"
        )
        raise FedroamError(f"{host}: exit code {done.returncode}, it said: {said[:300]}{hint}")
    lines = (line.split(maxsplit=1) for line in done.stdout.decode("utf-8", "replace").splitlines())
    there = {words[1]: words[0] for words in lines if len(words) == 2}
    wrong = [path for path in files if there.get(path) != sums[path]]
    if wrong:
        raise FedroamError(f"{host}: {to}/{wrong[0]} is not what was sent")
    if own in files and not keep_key:
        (folder / own).unlink()
    return own in files


def _files(folder: Path, name: str) -> dict[str, bytes]:
    """What a node needs, by its place below the site's folder; without its key where that is not here any more."""
    site = read_site(folder / FILE)
    node = site.node(name)
    if node is None:
        raise unknown("node", name, [each.name for each in site.nodes])
    home = f"{NODES}/{name}"
    found = {}
    for path in (FILE, EXPERIMENT, AUTHORITY, f"{home}/{CERTIFICATE}", f"{home}/{KEY}"):
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


def _packed(files: dict[str, bytes]) -> bytes:
    """Files as a tar archive, for their owner alone."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        for path, data in files.items():
            facts = tarfile.TarInfo(path)
            facts.size, facts.mode = len(data), 0o600
            archive.addfile(facts, io.BytesIO(data))
    return body.getvalue()
