"""`site.toml`: which nodes there are, in which role each speaks to the others, and what a message may be at most."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedroam.errors import InputError, unknown
from fedroam.facts import read_text
from fedroam.writing import take_lock, write_text

OWN_PART = r"[A-Za-z0-9_-]+\.py"  # the name of a file with the user's own parts, beside the experiment
FILE, EXPERIMENT, AUTHORITY, NODES = "site.toml", "experiment.toml", "authority.pem", "nodes"
AUTHORITY_KEY, CERTIFICATE, KEY = "authority.key", "certificate.pem", "key.pem"
CHANGING = 60.0  # seconds that another process has to end its change, which takes a signature and a file
NEXT_KEY = "next-key.pem"  # of which a certificate has been asked for
PIECE = 3 * 1024 * 1024  # bytes of a transfer that travel in one message at most
BSSID = r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"
NAME = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
PORT = r"(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
ADDRESS = rf"^[^\s/:\[\]]+:{PORT}$|^\[[0-9a-fA-F:.]+\]:{PORT}$"
# What patterns say, in words, by key.
ALLOWED = {
    "address": "allowed is HOST:PORT, with a port of 65535 at most",
    "name": "allowed are 1 to 40 lower-case letters a to z, digits and '-', a letter or digit first and last",
    "serial": "allowed are 2 to 40 hexadecimal digits, 0 to 9 and a to f",
    "digest": "allowed are 64 hexadecimal digits, 0 to 9 and a to f",
    "bssid": "allowed are addresses of radios in lower case, as 02:00:00:00:01:00",
}
Role = Literal["server", "client", "peer", "access_point"]
# Who may call whom: nodes of these roles listen, to nodes of those.
CALLERS: Mapping[Role, tuple[Role, ...]] = {
    "server": ("client", "peer", "access_point"),
    "peer": ("peer",),
    "access_point": ("client",),
}


class _Checked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Limits(_Checked):
    """What is waited for, and how much is taken from others.

    chunk: bytes of a model that travel in one message at most, and that are sent before it is known how fast a link
    is. answer: seconds that a node has for one piece of work, transfers included. away: seconds in which a node that
    has vanished may come back; after them its work is lost. retry: seconds for which a node looks for a server that is
    not there.
    """

    chunk: int = Field(262_144, ge=1024, le=PIECE)
    answer: float = Field(600.0, gt=0, le=86_400)
    away: float = Field(15.0, ge=0, le=86_400)
    retry: float = Field(600.0, ge=0, le=30 * 86_400)


class Movement(_Checked):
    """Where devices are, and who meets whom.

    by: `experiment`, as the experiment's mobility and contact rule say; or what they find out themselves: `answers`,
    which access point answers quickest, or which peers answer; `signal`, the access point that they hear loudest or
    whose Wi-Fi they have joined, else as `answers`; `discovery`, as `answers`, of those that are found on the local
    network. pings: how often each is asked in a round, by whose median it is judged. patience: seconds that it has for
    each answer. quicker: by which share another access point must answer quicker, or stronger: by how many dB it must
    be heard louder than a device's own; and times: so many rounds in succession, before a device turns to it.
    """

    by: Literal["experiment", "answers", "signal", "discovery"] = "experiment"
    pings: int = Field(5, ge=1, le=20)
    patience: float = Field(1.0, gt=0, le=60)
    quicker: float = Field(0.3, ge=0, lt=1)
    stronger: float = Field(6.0, ge=0, le=100)
    times: int = Field(2, ge=1, le=1000)


class SiteNode(_Checked):
    """A node: its name, its role, the client or access point that it is in the experiment, and the certificate that it
    goes by.

    serial: of that certificate, hexadecimal; any other one of the node's is refused; empty where it has none yet.
    address: host:port where a peer or an access point listens, port 0 for any that is free; not set: everywhere, and
    found where it calls the server from.
    meter: how its power is measured, the settings of a part of the family `meter`. bssid: of an access point, the
    addresses of its radios (one a band), by which devices hear it that have not joined its Wi-Fi.
    """

    name: str = Field(pattern=f"^{NAME}$")
    role: Role
    client: int | None = Field(None, ge=0)
    access_point: int | None = Field(None, ge=0)
    address: str = Field("", pattern=f"^$|{ADDRESS}")
    serial: str = Field(pattern="^$|^[0-9a-f]{2,40}$")
    revoked: bool = False
    meter: dict[str, Any] | None = None
    bssid: tuple[Annotated[str, Field(pattern=BSSID)], ...] | None = Field(None, strict=False)

    @property
    def number(self) -> int:
        """Which holder of models it is, as `Traffic` writes it."""
        from fedroam.federation import SERVER, access_point  # here: who only makes keys need not load torch

        if self.access_point is not None:
            return int(access_point(self.access_point))
        return SERVER if self.client is None else self.client

    @property
    def listens(self) -> bool:
        """Whether others call it."""
        return self.role in CALLERS

    def host(self, site: str) -> str:
        """The name that its certificate gives it when it serves: whoever dials asks for exactly this certificate."""
        return f"s{self.serial}.{self.name}.{self.role}.{site}"


class Site(_Checked):
    """All of `site.toml`.

    digest: of the experiment. address: host:port of the server.
    """

    format: Literal[1] = 1
    name: str = Field(pattern=f"^{NAME}$")
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    address: str = Field(pattern=ADDRESS)
    limits: Limits = Limits()
    movement: Movement = Movement()
    nodes: tuple[SiteNode, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _whole(self) -> Site:
        names = [node.name for node in self.nodes]
        clients = [node.client for node in self.nodes if node.role in ("client", "peer")]
        places = [node.access_point for node in self.nodes if node.role == "access_point"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"several nodes are called {twice[0]!r}")
        if sorted(c for c in clients if c is not None) != list(range(len(clients))):
            raise ValueError("clients of the experiment are not 0, 1, ..., each once")
        if sorted(a for a in places if a is not None) != list(range(len(places))):
            raise ValueError("access points of the experiment are not 0, 1, ..., each once")
        for node in self.nodes:
            if (node.client is None, node.access_point is None) != (
                node.role not in ("client", "peer"),
                node.role != "access_point",
            ):
                raise ValueError(f"{node.name}: a {node.role} that is another in the experiment")
            if node.bssid and node.role != "access_point":
                raise ValueError(f"{node.name}: only access points have a bssid")
            if node.meter is not None and node.client is None:
                raise ValueError(f"{node.name}: only clients and peers have a meter")
        if len({node.role for node in self.nodes if node.client is not None}) > 1:
            raise ValueError("allowed are clients or peers, not both")
        if sum(node.role == "server" for node in self.nodes) != 1:
            raise ValueError("allowed is one server")
        return self

    @property
    def server(self) -> SiteNode:
        """The one that serves."""
        return next(node for node in self.nodes if node.role == "server")

    @property
    def clients(self) -> dict[int, SiteNode]:
        """Who is which client of the experiment."""
        return {node.client: node for node in self.nodes if node.client is not None}

    @property
    def holders(self) -> dict[int, SiteNode]:
        """All nodes but the server, by their number."""
        return {node.number: node for node in self.nodes if node.role != "server"}

    def acquainted(self, node: SiteNode) -> tuple[SiteNode, ...]:
        """Who calls a node, or is called by it, and so must know by its own `site.toml` what has become of it."""
        return tuple(
            other
            for other in self.nodes
            if other.name != node.name
            and (node.role in CALLERS.get(other.role, ()) or other.role in CALLERS.get(node.role, ()))
        )

    @property
    def direct(self) -> bool:
        """Whether models go from holder to holder, and are aggregated there; otherwise by the server."""
        return any(node.listens and node.role != "server" for node in self.nodes)

    def node(self, name: str) -> SiteNode | None:
        """The node of that name, or None."""
        return next((node for node in self.nodes if node.name == name), None)

    def named(self, name: str) -> SiteNode:
        """The node of that name. Raises InputError where there is none."""
        node = self.node(name)
        if node is None:
            raise unknown("node", name, [each.name for each in self.nodes])
        return node

    def changed(self, node: SiteNode) -> Site:
        """With this node in the place of the one of its name."""
        nodes: Sequence[SiteNode] = [node if old.name == node.name else old for old in self.nodes]
        return self.model_copy(update={"nodes": tuple(nodes)})

    def write(self, folder: Path) -> None:
        """Write `site.toml`."""
        text = tomli_w.dumps(self.model_dump(exclude_none=True))
        write_text(folder / FILE, text)


def read_site(path: Path) -> Site:
    """The site of a file. Raises InputError, which names the key, where it is not one."""
    try:
        found = tomllib.loads(read_text(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; fedroam site init DIR makes a site") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return checked_site(found, str(path))


@contextlib.contextmanager
def to_change(folder: Path) -> Iterator[Site]:
    """The site of a folder, which no other process changes meanwhile: of two at once, as where boards are enrolled side
    by side, the later one would write what it read before the other wrote. Raises InputError where the folder has none,
    cannot be written, or another process changes it for long."""
    read_site(folder / FILE)  # else a lock would be left where no site is
    try:
        lock = take_lock(folder / ".lock", CHANGING)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
    if lock is None:
        raise InputError(f"{folder}: another process has been changing it for {CHANGING:g} s; wait for it")
    with lock:
        yield read_site(folder / FILE)


def checked_site(found: Mapping[str, Any], source: str) -> Site:
    """The site that settings describe. Raises InputError, which names source and key, where they describe none."""
    return _valid(Site, found, source)


def checked_movement(found: Mapping[str, Any], source: str) -> Movement:
    """The movement that settings describe. Raises InputError likewise."""
    return _valid(Movement, found, source)


C = TypeVar("C", bound=_Checked)


def _keys(kind: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that are allowed at a place below settings of a kind."""
    for step in place:
        if isinstance(step, str):
            inside = kind.model_fields[step].annotation
            kinds = [each for each in (inside, *get_args(inside)) if isinstance(each, type)]
            kind = next(each for each in kinds if issubclass(each, BaseModel))
    return list(kind.model_fields)


def _valid(kind: type[C], found: Mapping[str, Any], source: str) -> C:
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"])) or "the site"
        if problem["type"] == "extra_forbidden":
            *place, name = problem["loc"]
            raise InputError(f"{source}: {key}: {unknown('key', str(name), _keys(kind, place))}") from None
        said = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "missing":
            said = (
                "is missing"
                if found
                else "is missing: this file is empty; fedroam site init DIR makes a site"
            )
        if problem["type"] == "string_pattern_mismatch":
            said = ALLOWED[next(str(step) for step in reversed(problem["loc"]) if isinstance(step, str))]
        shown = "" if problem["type"] in ("missing", "value_error") else f" = {problem['input']!r:.60}"
        raise InputError(f"{source}: {key}{shown}: {said}") from None
