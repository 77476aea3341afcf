"""What speaks against settings although they are allowed."""

from __future__ import annotations

from collections.abc import Sequence

NEAR = 0.01  # a reach below this share of the longer side of the world is advised against


def small_reach(reach: float, bounds: Sequence[float]) -> str:
    """The sentence on a contact radius (m) that is small for its world (x, y, x, y of two corners, m); else empty."""
    x, y, x_end, y_end = bounds
    if reach >= NEAR * max(x_end - x, y_end - y):
        return ""
    return (
        f"contacts reach {reach:g} m in a world of {x_end - x:.0f} m by {y_end - y:.0f} m: clients hardly ever meet; "
        "set contacts.radius to what the devices' radio reaches"
    )
