"""A site on this machine: every node a process of its own, over loopback, from one command."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedroam.components import build
from fedroam.deploy.emulation.cpu_shares import shares_of
from fedroam.deploy.emulation.namespaces import PORT, Namespaces, check_possible, namespaces
from fedroam.deploy.emulation.processes import node_processes
from fedroam.deploy.emulation.watch import GIB, watched
from fedroam.deploy.metering.readings import FOLDER
from fedroam.deploy.server.serving import serve
from fedroam.deploy.site.file import FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.errors import FedroamError
from fedroam.experiment import Experiment
from fedroam.parts import Parts
from fedroam.recording import Existing, Run
from fedroam.runner import Observer

LOOPBACK = "127.0.0.1"
# Bytes of a message over links that the kernel slows, and of what is sent before it is known how slow.
CHUNK = 32_768


def emulate(
    experiment: Experiment,
    out: Path,
    *,
    existing: Existing = "resume",
    use: Sequence[str] = (),
    meter: Mapping[str, Any] | None = None,
    observer: Observer | None = None,
    on_interrupt: Callable[[], None] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    status: Callable[[str], None] | None = None,
    relayed: bool = False,
    paced: bool = False,
    netns: bool = False,
) -> Run:
    """Run an experiment with a process for each client and access point, into an ordinary run folder.

    relayed: the server stands for peers and access points, and all models go through it. The site lives in a temporary
    folder that only this user reads, with keys of its own, and goes with the run. What nodes say goes to this process's
    stderr. meter: how the power of each client is measured, the settings of a part; what it reads goes to `meters/` in
    the run folder. paced: transfers take as long as the run's `[radio]` says; under a clock of seconds as its `[link]`
    says, and training as its `[compute]` does. netns: each node is in a network namespace of its own, whose links are
    as fast as that, and has the share of a core that its device's speed is of the fastest one's; it needs root, and is
    paced. `status` is told, every second, how the nodes are. Raises what `fedroam.run` does.
    """
    if netns:
        check_possible()
    with contextlib.ExitStack() as held:
        home = held.enter_context(tempfile.TemporaryDirectory(prefix="fedroam-site-"))
        folder = Path(home) / "site"
        found_site(
            folder,
            experiment,
            address=f"{LOOPBACK}:1",
            limits=Limits(away=2.0, retry=60.0, **({"chunk": CHUNK} if netns else {})),
            relayed=relayed,
            listening=f"{LOOPBACK}:0",
            paced=paced or netns,
        )
        net = held.enter_context(_namespaces(folder, experiment, tell)) if netns else None
        own = LOOPBACK if net is None else net.address
        if meter is not None:
            _metered(folder, meter)
        nodes = node_processes(folder, use, out / FOLDER)

        def listening(port: int) -> None:
            site = read_site(folder / FILE)
            site.model_copy(update={"address": f"{own}:{port}"}).write(folder)
            nodes.start(
                node.name if net is None else net.line(i, node.name) for i, node in site.holders.items()
            )

        def still() -> None:
            for name, code in nodes.ended().items():
                raise FedroamError(f"{name} ended with exit code {code}: its reason stands above")

        try:
            with watched(nodes, status) as watch:
                found = serve(
                    folder,
                    out,
                    address=f"{own}:0",
                    existing=existing,
                    observer=observer if status is None else watch.told(observer),
                    on_interrupt=on_interrupt,
                    tell=tell,
                    use=use,
                    paced=paced or netns,
                    network=net,
                    serving=watch.see,
                    listening=listening,
                    still=still,
                )
            if watch.most:
                tell(f"{watch.processes} processes, {watch.most / GIB:.1f} GiB of memory together at most")
            return found
        finally:
            nodes.end()


@contextlib.contextmanager
def _namespaces(folder: Path, experiment: Experiment, tell: Callable[[str], None]) -> Iterator[Namespaces]:
    """Namespaces for the nodes of a site, which is told where each listens."""
    site, link = read_site(folder / FILE), Parts.of(experiment).link
    names = {i: node.name for i, node in site.holders.items()}
    with namespaces(names, shares_of(experiment), tell, link.setup, link.loss) as net:
        for i, node in site.holders.items():
            if node.listens:
                site = site.changed(node.model_copy(update={"address": f"{net.seats[i].address}:{PORT}"}))
        site.write(folder)
        yield net


def _metered(folder: Path, meter: Mapping[str, Any]) -> None:
    """Give every client's node a meter. Raises InputError where the settings are not those of one."""
    build("meter", meter)
    site = read_site(folder / FILE)
    for node in site.clients.values():
        site = site.changed(node.model_copy(update={"meter": dict(meter)}))
    site.write(folder)
