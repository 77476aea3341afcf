"""The runs of the study of contact limits: worlds, how long a model takes, who moves how, and which method."""

from __future__ import annotations

from fedroam.papers.mohawk.runs import FILES as MOHAWK_FILES
from fedroam.study.files import imported
from fedroam.study.values import Settings, StudyVariant

BOLOGNA = "studies/traces/bologna.parquet"
TAXIS = "studies/traces/san-francisco-taxis.parquet"
FILES = {BOLOGNA: imported("sumo_bologna/fcd.csv.gz", ""), TAXIS: MOHAWK_FILES[TAXIS]}

INPUTS, CLASSES, HIDDEN = 64, 10, 32  # of the digits, and of the network that learns them
INSTANT = 0.0  # a transfer that takes no time
SIDE, ROUND = 1000.0, 60.0  # m, of the square; s, of a round


def bytes_of(hidden: int) -> int:
    """What the network weighs on the air, float32."""
    return 4 * (INPUTS * hidden + hidden + hidden * CLASSES + CLASSES)


def link(seconds: float, hidden: int = HIDDEN) -> Settings:
    """A link on which the model takes so many seconds at any distance; a transfer that breaks is lost."""
    if seconds == INSTANT:
        return {"kind": "instant"}
    return {"kind": "fixed", "throughput": 8e-6 * bytes_of(hidden) / seconds}


def regime(seconds: float) -> str:
    """A time of transfer in words."""
    return "no time" if seconds == INSTANT else f"{seconds:g} s"


BASE: Settings = {
    "clients": 24,
    "rounds": 400,
    "evaluate_every": 20,
    "record_movement": "none",
    "data": {"kind": "digits", "test_share": 0.3},
    "partition": {"kind": "dirichlet", "alpha": 0.1},
    "model": {"kind": "mlp", "hidden": [HIDDEN]},
    "training": {"kind": "sgd", "lr": 0.1, "batch_size": 16, "epochs": 1},
    "mobility": {"kind": "random_walk", "width": SIDE, "height": SIDE, "high_share": 0.0},
    "contacts": {"kind": "closest_approach", "radius": 50.0},
    "clock": {"kind": "seconds", "length": ROUND},
    "federation": {"kind": "decentralized"},
}

# --- straight walks: size over bandwidth, speed and radius ---------------------------------------------------------

TIMES = (INSTANT, 2.0, 10.0, 30.0)  # s, of a model
SPEEDS = {"slow": 100.0, "fast": 800.0}  # m in a round of 60 s, the highest: 1.7 and 13 m/s
RADII = (50.0, 150.0)  # m
METHODS: dict[str, Settings] = {
    "decentralized": {"kind": "decentralized"},
    "fedavg": {"kind": "fedavg"},
    "fedbuff": {"kind": "fedbuff", "size": 6},
    "local": {"kind": "local"},
}
METHOD_LABELS = {
    "decentralized": "Decentralized",
    "fedavg": "FedAvg",
    "fedbuff": "FedBuff",
    "local": "No exchange",
}


def walk(
    seconds: float, speed: str = "slow", radius: float = 50.0, method: str = "decentralized"
) -> StudyVariant:
    """Walkers who meet, or, with a server, are reached by it anywhere, however they move."""
    return StudyVariant(
        f"walk,{method},{speed},R={radius:g},T={seconds:g}",
        {
            "mobility": {"max_speed": SPEEDS[speed]},
            "contacts": {"radius": radius},
            "link": link(seconds),
            "federation": METHODS[method],
        },
    )


def walk_larger(seconds: float) -> StudyVariant:
    """A network of four times the size on a link of four times the rate, near enough: the same time."""
    hidden = 4 * HIDDEN
    return StudyVariant(
        f"walk,larger,T={seconds:g}",
        {
            "mobility": {"max_speed": SPEEDS["slow"]},
            "link": link(seconds, hidden),
            "model": {"hidden": [hidden]},
        },
    )


DENSER = (50.0, 150.0, 450.0)  # m, of reach: from some contacts to nearly everybody at once
SENDING = 2.0  # s, of a model alone on the air


def walk_shared(radius: float) -> StudyVariant:
    """Fast walkers whose transfers share the air with those in reach of them (`link.shared`)."""
    return StudyVariant(
        f"walk,shared,fast,R={radius:g},T={SENDING:g}",
        {
            "mobility": {"max_speed": SPEEDS["fast"]},
            "contacts": {"radius": radius},
            "link": {**link(SENDING), "shared": True},
        },
    )


# --- random waypoint: the same, what becomes of transfers that break, and networks of several sizes ----------------

LOWEST = 0.3  # the lowest speed of new ways, of the highest: 0.5 and 4 m/s
# The regimes, by the share (%) of the transfers that get through: none below the first, nearly all above the second.
NONE_FITS, MOST_FIT = 5.0, 80.0
REGIMES = {"all": 2.0, "some": 10.0, "none": 30.0}  # s, of a model, for fast clients with a reach of 50 m
BEYOND = 50.0  # s, of a model: down and up do not fit in a round
BROKEN = {"lost": "lost", "resumed": "resumed", "partial": "used in part"}
SMALLER, LARGER = 8, 4 * HIDDEN  # networks, of a fourth and of four times the size, near enough


def roam(
    seconds: float,
    speed: str = "fast",
    radius: float = 50.0,
    broken: str = "lost",
    *,
    hidden: int = HIDDEN,
    shared: bool = False,
) -> StudyVariant:
    """Clients on random waypoint who meet. seconds: what the network of `HIDDEN` units takes; others are sent at the
    same rate."""
    name = f"waypoint,{broken},{speed},R={radius:g},T={seconds:g}"
    name += f",hidden={hidden}" * (hidden != HIDDEN) + ",shared" * shared
    sending = link(seconds)
    if seconds != INSTANT:
        sending = {**sending, "broken": broken, "shared": shared}
    return StudyVariant(
        name,
        {
            "mobility": {
                "kind": "random_waypoint",
                "min_speed": LOWEST * SPEEDS[speed],
                "max_speed": SPEEDS[speed],
            },
            "contacts": {"radius": radius},
            "link": sending,
            "model": {"hidden": [hidden]},
        },
    )


# --- vehicles ------------------------------------------------------------------------------------------------------

_SOME_SAMPLES: Settings = {
    "kind": "client_dirichlet",
    "alpha": 0.1,
    "samples_per_client": 40,
    "sharing": "replacement",
}
TRACES: dict[str, Settings] = {
    "bologna": {
        "clients": 1000,  # of whom some 20 are on the road at a time
        "rounds": 110,
        "evaluate_every": 10,
        "partition": _SOME_SAMPLES,
        "mobility": {
            "kind": "trace",
            "file": BOLOGNA,
            "mode": "interpolate",
            "interval": 30.0,
            "max_gap": 10.0,
            "devices": "drawn",
        },
        "contacts": {"radius": 100.0},
        "clock": {"length": 30.0},
    },
    "taxis": {
        "clients": 100,
        "rounds": 144,
        "evaluate_every": 12,
        "partition": _SOME_SAMPLES,
        "mobility": {
            "kind": "trace",
            "file": TAXIS,
            "mode": "interpolate",
            "interval": 300.0,
            "max_gap": 900.0,
            "begin": "2008-05-17T18:00:00Z",
            "length": 145 * 300.0,
            "box": 8000.0,
        },
        "contacts": {"radius": 100.0},
        "clock": {"length": 300.0},
    },
}
TRACE_LABELS = {"bologna": "Vehicles in Bologna, 100 m", "taxis": "Taxis in San Francisco, 100 m"}
TRACE_TIMES = (INSTANT, 2.0, 10.0)


# s, of a model: where nearly all get through, where some do, and where down and up of a server take longer than a round
# of 30 s and of 300 s, while many still get through between vehicles.
TRACE_REGIMES = {
    "bologna": {"all": 2.0, "some": 10.0, "beyond": 20.0},
    "taxis": {"all": 2.0, "some": 30.0, "beyond": 200.0},
}


def on_trace(trace: str, seconds: float, method: str = "lost") -> StudyVariant:
    """Vehicles of a trace who meet, by what becomes of transfers that break, or by another method."""
    name, sending = f"{trace},T={seconds:g}", link(seconds)
    more: Settings = {}
    if method in METHODS:
        more = {"federation": METHODS[method]}
    elif method != "lost":
        sending = {**sending, "broken": method}
    if method != "lost":
        name = f"{trace},{method},T={seconds:g}"
    return StudyVariant(name, {**TRACES[trace], "link": sending, **more})


# --- do rankings survive? ------------------------------------------------------------------------------------------

PATTERNS = ("static", "random", "dam", "dcm")
RANKING_TIMES = (INSTANT, 30.0, 50.0)  # s; a round has 60


def steered(pattern: str, seconds: float) -> StudyVariant:
    """The world of Reza et al. on digits: 20 clients on 18 x 18, five of them move up to 5 m a round, Rc = 3 m."""
    moving: Settings = {} if pattern == "static" else {"mobile": 5, "max_step": 5.0}
    return StudyVariant(
        f"grid,{pattern},T={seconds:g}",
        {
            "clients": 20,
            "partition": {"alpha": 0.05},
            "mobility": {"kind": pattern, "grid": 18, **moving},
            "contacts": {"kind": "radius", "radius": 3.0},
            "link": link(seconds),
        },
    )


HIERARCHIES = {"hierfavg": "HierFAVG", "mohawk": "MOHAWK"}
HIERARCHY_TIMES = (INSTANT, 30.0, 100.0)  # s, down and up each; a round has 300


def under_access_points(method: str, seconds: float) -> StudyVariant:
    """Taxis under 60 access points that reach 600 m."""
    return StudyVariant(
        f"taxis,{method},T={seconds:g}",
        {
            **TRACES["taxis"],
            "evaluate_every": 6,
            "access_points": {"kind": "points_of_interest", "number": 60, "range": 600.0},
            "contacts": {"kind": "radius", "radius": 0.0},
            "link": link(seconds),
            "federation": {"kind": method, "k2": 6},
        },
    )
