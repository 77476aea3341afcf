"""`fedroam node`, `deploy`, `emulate` and `energy`: the same experiment on a real network, and what it drew."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedroam.cli import options
from fedroam.cli.commands.site import Relayed, single
from fedroam.cli.console import FAILED, out, say, tell
from fedroam.cli.going_on import Given, command, going_on
from fedroam.cli.progress import progress
from fedroam.errors import InputError

if TYPE_CHECKING:
    from fedroam.deploy.server.hub import Hub
    from fedroam.experiment import Experiment
    from fedroam.recording import Run

LOST = "the rounds since the last checkpoint are lost"

SiteFile = Annotated[str, options.place("--site", metavar="FILE", help="The site.toml of the site.")]
Out = Annotated[
    str | None,
    options.place("--out", metavar="DIR", help="The run folder. (default: runs/NAME-DIGEST/seed-SEED)"),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an unfinished run.")]
Metrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve numbers for Prometheus there, by default to this machine alone.",
    ),
]


def node(
    site: SiteFile,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Which node of the site this is.")],
    meters: Annotated[
        str | None,
        options.place(
            "--meters",
            metavar="DIR",
            help="Where the readings of the node's meter go, if site.toml gives it one. (default: meters/ beside it)",
        ),
    ] = None,
    metrics: Metrics = "",
    discover: Annotated[
        bool,
        typer.Option(
            "--discover", help="Also look for the server on the local network, where it announces itself."
        ),
    ] = False,
    use: options.Use = None,
    quiet: options.Quiet = False,
) -> None:
    """Be a client, a peer or an access point of a site, as site.toml says, until the run is done: hold a share of the
    data and train on it, send models to those whom the server names, and aggregate what has come.

    A server that is not there, or goes away, is looked for again, as long as the site's limits say.
    """
    _hush()
    from fedroam.deploy.metering.readings import FOLDER, metered
    from fedroam.deploy.node.process import node_of

    readings = Path(meters) if meters else _home(site) / FOLDER
    own = node_of(_home(site), name, lambda line: tell(f"{name}: {line}"), use or ())
    if discover:
        from fedroam.deploy.discovery import found

        own.find = lambda: found(own.site)
    try:
        if not quiet:
            parts = {} if own.share is None else own.share.held
            held = ", ".join(f"{len(part.samples)} for {use}" for use, part in parts.items())
            tell(
                f"{name}: {f'holds samples: {held}' if held else 'aggregates'}; looks for {own.site.address}"
            )
        with contextlib.ExitStack() as beside:
            beside.enter_context(metered(own, readings))
            if metrics:
                from fedroam.deploy.metrics import node_metrics

                beside.enter_context(node_metrics(own, metrics))
            own.run()
    finally:
        own.close()
    if not quiet:
        tell(f"{name}: the run is done")


def _hush() -> None:
    """Keep gRPC's own lines off the terminal, unless they are asked for: it tells of every caller whose certificate is
    of another site, without saying whose. To be called before gRPC is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def deploy(
    site: SiteFile,
    folder: Out = None,
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="HOST:PORT", help="Where to listen. (default: what site.toml says)"
        ),
    ] = "",
    patience: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long to wait for all nodes before the first round."),
    ] = 600.0,
    metrics: Metrics = "",
    announce: Annotated[
        bool,
        typer.Option("--announce", help="Tell the local network where the server is, for node --discover."),
    ] = False,
    resume: Resume = False,
    fresh: options.Fresh = False,
    use: options.Use = None,
    quiet: options.Quiet = False,
) -> None:
    """Run the experiment of a site as its server, with nodes for clients, into an ordinary run folder.

    Ctrl-C stops after the present round and leaves a checkpoint; so does a kill, but for the rounds since the last one.
    """
    _hush()
    from fedroam.deploy.server.serving import serve
    from fedroam.deploy.site.experiment import experiment_of
    from fedroam.deploy.site.file import ADDRESS, ALLOWED, FILE, read_site
    from fedroam.planning import Plan, PlannedRun
    from fedroam.runner import default_folder

    if address and not re.match(ADDRESS, address):
        raise InputError(f"--address {address!r}: {ALLOWED['address']}")
    if not 0 <= patience <= 30 * 86_400:
        raise InputError(f"--patience {patience:g}: allowed are 0 to {30 * 86_400} seconds")
    home = _home(site)
    known = read_site(home / FILE)
    experiment = experiment_of(home, known, use or ())
    root = Path(folder) if folder else default_folder(experiment)
    plan = Plan(experiment.name, (PlannedRun("", experiment),))
    given: dict[str, Given] = {
        "--site": site,
        "--out": folder,
        "--address": address or None,
        "--metrics": metrics or None,
        "--announce": announce or None,
        "--use": use,
    }
    following, follow = progress(plan, quiet), contextlib.ExitStack()
    observers, hearing = [following.follow(plan.runs[0])], [tell]

    def meet(hub: Hub) -> None:
        if metrics:
            from fedroam.deploy.metrics import server_metrics

            numbers = follow.enter_context(server_metrics(hub, metrics))
            observers.append(numbers.observe)
            hearing.append(numbers.told)

    def listening(port: int) -> None:
        tell(f"listens at port {port}")
        if announce:
            from fedroam.deploy.discovery import announced

            follow.enter_context(announced(known, address or known.address, port, tell))

    again = command("deploy", options={**given, "--resume": True})
    with going_on(again, LOST, lambda: (root / "run.json").exists()), follow, following:
        found = serve(
            home,
            root,
            address=address,
            existing=options.existing(resume, fresh),
            patience=patience,
            observer=lambda *facts: _each(observers, *facts),
            on_interrupt=following.interrupted,
            tell=lambda line: _each(hearing, line),
            listening=listening,
            serving=meet,
            use=use or (),
        )
    _conclude(found)
    _tell_replay(home, found, experiment, use)


def _tell_replay(home: Path, found: Run, experiment: Experiment, use: list[str] | None) -> None:
    """How to simulate what devices found out of where they were, where that was kept."""
    from fedroam.deploy.server.sight import replay
    from fedroam.deploy.site.file import EXPERIMENT

    sets = [
        f"{family}={{{', '.join(f'{name} = {json.dumps(value)}' for name, value in part.items())}}}"
        for family, part in replay(found.folder, experiment).items()
    ]
    if sets:
        again: dict[str, Given] = {"--set": sets, "--use": use}
        say(f"the same movement, simulated: {command('run', str(home / EXPERIMENT), options=again)}")


def _cleaned(given: bool) -> None:
    """Remove what killed emulations have left, and end."""
    if not given:
        return
    from fedroam.deploy.emulation.namespaces import check_possible, clean

    check_possible()
    count = clean()
    say(f"removed what {count} killed emulation{'s' if count != 1 else ''} had left")
    raise typer.Exit


def emulate(
    source: options.Source,
    assignments: options.Assignments = None,
    use: options.Use = None,
    folder: Out = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices", metavar="N", help="Short for --set clients=N."),
    ] = None,
    access_points: Annotated[
        int | None,
        typer.Option("--access-points", metavar="N", help="Short for --set access_points.number=N."),
    ] = None,
    meter: Annotated[
        str | None,
        typer.Option(
            "--meter",
            metavar="KIND|TABLE",
            help="How each node measures its power: rapl, {kind = 'model', idle = 2, training = 7, communication = 3}.",
        ),
    ] = None,
    resume: Resume = False,
    fresh: options.Fresh = False,
    relayed: Relayed = False,
    paced: Annotated[
        bool,
        typer.Option(
            "--paced",
            help="Transfers take as long as the radio says, by distance; under a clock of seconds as the link says, "
            "and training as long as the devices take.",
        ),
    ] = False,
    netns: Annotated[
        bool,
        typer.Option(
            "--netns",
            help="Each node in a network namespace of its own, whose links are as fast as --paced says (Linux, root, "
            "ip and tc).",
        ),
    ] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            is_eager=True,
            callback=_cleaned,
            help="Remove the namespaces that a killed emulation has left, and do nothing else.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Then simulate the same experiment, and hold one against the other; exit code 1 where they differ.",
        ),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Run an experiment with a server and a process for each client and access point on this machine, over loopback.

    Every message goes through mutual TLS, as on a real network; keys live as long as the command. It ends in an
    ordinary run folder, which report and compare open beside simulated runs.
    """
    from fedroam.deploy.emulation import emulate as run_emulated
    from fedroam.planning import Plan, PlannedRun
    from fedroam.runner import default_folder

    assignments = [
        *(assignments or []),
        *([] if devices is None else [f"clients={devices}"]),
        *([] if access_points is None else [f"access_points.number={access_points}"]),
    ]
    experiment, own = single(source, assignments, use)
    measured = None if meter is None else _meter(meter)
    root = Path(folder) if folder else default_folder(experiment)
    plan = Plan(experiment.name, (PlannedRun("", experiment),))
    given: dict[str, Given] = {
        "--set": assignments,
        "--use": use,
        "--out": folder,
        "--meter": meter,
        "--relayed": relayed or None,
        "--paced": paced or None,
        "--netns": netns or None,
        "--check": check or None,
        "--resume": True,
    }
    following = progress(plan, quiet)
    again = command("emulate", source, options=given)
    with going_on(again, LOST, lambda: (root / "run.json").exists()), following:
        found = run_emulated(
            experiment,
            root,
            existing=options.existing(resume, fresh),
            use=own,
            meter=measured,
            status=None if quiet else following.status,
            observer=following.follow(plan.runs[0]),
            on_interrupt=following.interrupted,
            tell=tell,
            relayed=relayed,
            paced=paced,
            netns=netns,
        )
    _conclude(found)
    if check:
        _check(experiment, found)


def _check(experiment: Experiment, network: Run) -> None:
    """Simulate an experiment, print how far its run on a network is the same, and keep that in the run's folder. Exits
    with 1 where it is not."""
    from fedroam.analysis.agreement import keep_agreement
    from fedroam.cli.agreement_table import agreement_table, seconds_words
    from fedroam.runner import run

    with tempfile.TemporaryDirectory(prefix="fedroam-simulated-") as folder:
        found = keep_agreement(network, run(experiment, Path(folder) / "run"))
    out().print(agreement_table(list(found.compared.values())))
    if found.seconds:
        say(seconds_words(found.seconds))
    apart = [each.what for each in found.compared.values() if not each.agrees]
    if apart:
        tell(f"error: the network's run is not the simulated one: {', '.join(apart)}")
        raise typer.Exit(FAILED)


def _home(site: str) -> Path:
    """The folder of a site, by its site.toml."""
    path = Path(site)
    if path.name != "site.toml":
        raise InputError(f"--site {site!r}: allowed is the site.toml of a site")
    return path.parent


def _meter(text: str) -> dict[str, Any]:
    """The settings of a meter: the name of a kind, or a table as in a file."""
    try:
        found = tomllib.loads(f"meter = {text}")["meter"] if text.lstrip().startswith("{") else {"kind": text}
    except ValueError as error:
        raise InputError(f"--meter {text!r}: {error}") from None
    return dict(found)


def energy(
    folder: Annotated[str, options.operand(metavar="RUN", help="The run folder.")],
    idle: Annotated[
        float,
        typer.Option(
            metavar="W", help="Power to take off while nodes work: what they draw when they only are on."
        ),
    ] = 0.0,
) -> None:
    """Print what the meters of a run's nodes have measured: joules of training and communication, consumed and wasted.

    A row for each node and round goes to meters/energy.parquet in the run folder. Wasted is what was spent on updates
    that will never be aggregated; energy counts while a node works for the run, not while it waits.
    """
    from fedroam.cli.energy_table import energy_table
    from fedroam.deploy.metering.measured import keep, measured_energy
    from fedroam.recording import open_run

    if not 0 <= idle < 1e6:
        raise InputError(f"--idle {idle:g}: allowed are 0 W or more, below 1e6")
    run = open_run(folder)
    found = measured_energy(run, idle)
    path = keep(run, found)
    grid, notes = energy_table(found)
    out().print(grid)
    for note in notes:
        say(note)
    say(f"each node and round: {path}")


def _each(those: Sequence[Callable[..., object]], *told: Any) -> None:
    for each in those:
        each(*told)


def _conclude(found: Run) -> None:
    """The table, and where the run lies."""
    from fedroam.analysis import compare_runs, print_comparison

    print_comparison(compare_runs([found]), out())
    say(f"run: {found.folder}")
