"""The runs of the study of Farcas et al.: traces, methods, data sets, and the variants made of them."""

from __future__ import annotations

from typing import Any

from fedroam.study.files import imported
from fedroam.study.values import Settings, StudyVariant

HOUR, DAY = 3600.0, 86_400.0
CITY = 17_500.0  # side of the paper's square, metres
METHODS = {"hierfavg": "HierFAVG", "macfl": "MACFL", "mohawk": "MOHAWK"}
BY_LABEL = {label: method for method, label in METHODS.items()}
BASELINES = ("hierfavg", "macfl")
K2 = (2, 5, 10)
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
SPLITS = {"iid": ("IID", 100.0), "non-iid": ("non-IID", 0.1)}
# Bytes of the paper's network for MNIST, which the small one of scale quick is charged for, too.
CONV5_BYTES = 4 * 659_242

_NEW_YORK = "studies/traces/gowalla-new-york.parquet"
_FOURSQUARE = "studies/traces/foursquare-new-york.parquet"
_TAXIS = "studies/traces/san-francisco-taxis.parquet"
_BAY = "37.2,38.2,-122.8,-121.7"
FILES = {
    _NEW_YORK: imported("gowalla_nyc/checkins.csv.gz", ""),
    _FOURSQUARE: imported("foursquare_nyc/checkins.csv.gz", ""),
    _TAXIS: imported(
        "cabspotting/cabspotting_5min.parquet",
        f"--column lat=lat_e5 --column lon=lon_e5 --unit 1e-5 --box={_BAY} --max-speed 50",
        columns={"lat": "lat_e5", "lon": "lon_e5"},
        unit=1e-5,
        box=tuple(float(side) for side in _BAY.split(",")),
        max_speed=50.0,
    ),
}


def _trace(file: str, begin: str, hours: int, **settings: float) -> Settings:
    return {"kind": "trace", "file": file, "begin": begin, "length": hours * HOUR, "box": CITY, **settings}


_RAW = _trace(_NEW_YORK, "2010-09-17T00:00:00Z", 744)
# Each trace: its movement, its devices, its rounds (one less than its hours).
TRACES: dict[str, Settings] = {
    "month": {"mobility": {**_RAW, "dwell": 6 * HOUR, "report_share": 0.4}, "clients": 1000, "rounds": 743},
    "raw": {"mobility": {**_RAW, "dwell": 0.0, "report_share": 1.0}, "clients": 1000, "rounds": 743},
    "foursquare": {
        "mobility": {
            **_trace(_FOURSQUARE, "2012-05-01T00:00:00Z", 744),
            "dwell": 0.0,
            "report_share": 1.0,
        },
        "clients": 800,
        "rounds": 743,
    },
    "taxis": {
        "mobility": {**_trace(_TAXIS, "2008-05-17T10:00:00Z", 575), "dwell": 0.0, "report_share": 1.0},
        "clients": 500,
        "rounds": 574,
    },
}
TRACE_LABELS = {
    "month": "Gowalla, stand-in month",
    "raw": "Gowalla, raw check-ins",
    "foursquare": "Foursquare, raw check-ins",
    "taxis": "San Francisco taxis",
}
CUT = ("quick", "medium")  # scales
LEARNT = ("month", "raw", "taxis")  # the traces on which models are trained
_FEW_TAXIS = {"rounds": 70, "clients": 200}  # but in full, for three in four taxis are there at any hour

BASE: Settings = {
    **TRACES["month"],
    "evaluate_every": 10,
    "record_movement": "none",
    "data": {"kind": "mnist"},
    "partition": {
        "kind": "client_dirichlet",
        "alpha": 0.1,
        "samples_per_client": 500,
        "sharing": "replacement",
    },
    "model": {"kind": "conv5", "init": "kaiming_normal"},
    "training": {"kind": "sgd", "lr": 0.01, "batch_size": 8, "epochs": 5},
    "access_points": {"kind": "points_of_interest", "number": 100},
    "contacts": {"kind": "radius", "radius": 0.0},
    "radio": {"kind": "lte_wifi"},
    "federation": {"kind": "mohawk", "k2": 5, "sigma": 0.1},
}

# Ablation: what is turned in a method, beside what it is called.
MOHAWK_TURNED: dict[str, tuple[str, Settings]] = {
    "fixed": ("access points fixed", {"access": "fixed"}),
    "ring": ("walk on the ring", {"access": "ring"}),
    "no-carry": ("no carry-over", {"carry_over": False}),
    "all": ("all access points at the cloud", {"cloud": "all"}),
    "uniform": ("equal weights", {"weights": "uniform"}),
    # What arrived, not what is assigned: with the nearest access point that would count devices long gone.
    "samples": ("weights by samples", {"weights": "samples", "cloud_samples": "arrived"}),
}
HIERFAVG_TURNED: dict[str, tuple[str, Settings]] = {
    "nearest": ("nearest access point", {"access": "nearest"}),
    "carry": ("carry-over", {"carry_over": True}),
    "selective": ("selective cloud", {"cloud": "selective"}),
    "cosine": ("cosine weights", {"weights": "cosine"}),
}

ABLATION = (5, "non-iid")  # k2 and split of the ablation, the traces and the numbers of access points


def _settings(data: str, split: str, method: str, k2: int, **more: Any) -> Settings:
    return {
        "data": {"kind": data},
        "partition": {"alpha": SPLITS[split][1]},
        "evaluate_every": k2,  # the cloud's model changes then and only then
        "federation": {"kind": method, "k2": k2, **more},
    }


def main(data: str, split: str, method: str, k2: int) -> StudyVariant:
    """The variant of tables 3, 4 and 6."""
    return StudyVariant(f"{data},{split},k2={k2},{method}", _settings(data, split, method, k2))


def turned(method: str, switch: str) -> StudyVariant:
    """A method with one switch turned (keys of MOHAWK_TURNED or HIERFAVG_TURNED), '' for none."""
    k2, split = ABLATION
    if not switch:
        return main("mnist", split, method, k2)
    changes = (MOHAWK_TURNED if method == "mohawk" else HIERFAVG_TURNED)[switch][1]
    return StudyVariant(f"turned,{method},{switch}", _settings("mnist", split, method, k2, **changes))


def with_access_points(data: str, split: str, method: str, access_points: int) -> StudyVariant:
    """The variant with another number of access points than 100 (table 9)."""
    k2 = ABLATION[0]
    if access_points == 100:
        return main(data, split, method, k2)
    settings = {**_settings(data, split, method, k2), "access_points": {"number": access_points}}
    return StudyVariant(f"aps={access_points},{data},{split},{method}", settings)


def on_trace(trace: str, method: str) -> StudyVariant:
    """The variant on another trace than the stand-in month."""
    k2, split = ABLATION
    if trace == "month":
        return main("mnist", split, method, k2)
    settings = {**_settings("mnist", split, method, k2), **TRACES[trace]}
    return StudyVariant(
        f"trace={trace},{method}",
        settings,
        dict.fromkeys(CUT, _FEW_TAXIS) if trace == "taxis" else {},
    )


def tuned(data: str, split: str, k1: int, k2: int, batch: int) -> StudyVariant:
    """MOHAWK with other local epochs and batches (tables 7 and 8)."""
    settings = {**_settings(data, split, "mohawk", k2), "training": {"epochs": k1, "batch_size": batch}}
    return StudyVariant(f"{data},{split},k1={k1},k2={k2},batch={batch}", settings)


def present(trace: str, method: str, k2: int = 5) -> StudyVariant:
    """Who is there and who is aggregated: a run over the whole trace in which next to nothing is learnt.

    Of the taxis, but in full, over ten days. A handful of digits and a network of 85 parameters; what is charged
    for is the paper's network.
    """
    settings = {
        **TRACES[trace],
        "evaluate_every": 1 if trace == "month" else 24,
        "checkpoint_every": 100,
        "data": {"kind": "digits"},
        "partition": {"kind": "client_dirichlet", "alpha": 100.0, "samples_per_client": 1},
        "model": {"kind": "mlp", "hidden": [1]},
        "training": {"epochs": 1},
        "radio": {"extra": CONV5_BYTES - 4 * 85},
        "federation": {"kind": method, "k2": k2},
    }
    fewer = {scale: {"rounds": 240} for scale in CUT} if trace == "taxis" else {}
    return StudyVariant(f"present,{trace},k2={k2},{method}", settings, fewer)


QUICK: Settings = {
    "rounds": 240,
    "checkpoint_every": 40,
    "data": {"test_samples": 2000},
    "partition": {"samples_per_client": 100},
    "model": {"kind": "mlp", "hidden": [32]},
    "radio": {"extra": CONV5_BYTES - 4 * 25_450},
}
