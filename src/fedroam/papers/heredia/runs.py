"""What de Heredia (2024) ran: shares of high-mobility clients, ways of averaging, and the variants made of them."""

from __future__ import annotations

from typing import Any, Literal

from fedroam.study.values import StudyVariant

Alpha = float | Literal["auto"] | None

SHARES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)
BOTH = SHARES[1:-1]  # where there are clients of both groups
ALPHAS = (0.1, 0.2, 0.3, 0.4, 1.0)


def variant(share: float, alpha: Alpha = None, iid: bool = False) -> StudyVariant:
    """The variant with a share of high-mobility clients; alpha None: plain averaging."""
    name = ("iid," if iid else "") + f"p={share:g}" + ("" if alpha is None else f",alpha={alpha}")
    settings: dict[str, Any] = {"mobility": {"high_share": share}}
    if alpha is not None:
        settings["mixing"] = {"kind": "mobility_aware", "alpha": alpha}
    if iid:
        settings["partition"] = "iid"
    return StudyVariant(name, settings)


# All that is run, for every table, figure and claim.
RUNS = (
    *(variant(share, alpha, iid) for iid in (False, True) for alpha in (None, *ALPHAS) for share in SHARES),
    *(variant(share, "auto") for share in BOTH),
)


def percent(share: float) -> str:
    """A share in words: `5 %`."""
    return f"{100 * share:g} %"
