"""Phones: Wi-Fi near an access point, LTE beyond, and a direct link between two of them."""

from __future__ import annotations

import numpy as np
from pydantic import model_validator

from fedroam.components import field, register
from fedroam.links.link import BYTES, TimedLink


def between(distance: np.ndarray, near: float, far: float) -> np.ndarray:
    """How far away, float64 [transfers]: 0 up to `near` metres, 1 from `far` on, linear between.

    Half way where there is no distance, and where all distances are one and the same.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(np.maximum((distance - near) / (far - near), 0.0), 1.0)
    return np.where(np.isnan(share), 0.5, share)


def _rate(default: float, about: str) -> float:
    value: float = field(default, about, unit="Mbps", gt=0, allow_inf_nan=False)
    return value


@register("link", "lte_wifi", source="Farcas et al., Tables 1 and 2, Eqs. 1 and 2")
class LteWifiLink(TimedLink):
    """The throughputs of Farcas et al.: Wi-Fi within `wifi_range` of an access point, LTE beyond it and to a server.

    LTE has its highest throughput up to `lte_near` and its lowest from `lte_far` on, linear between: in the paper mean
    less and plus one standard deviation of the distances between clients and access points. To a server, which stands
    nowhere, it is half way between. The direct link between two clients, which the paper does not have, falls from
    `d2d_max` up to `d2d_near` to `d2d_min` at `d2d_far`; its defaults are those of the radio `lte_wifi`, which tells
    what all this costs.
    """

    lte_near: float = field(..., "LTE has its highest throughput up to this distance", unit="m", ge=0)
    lte_far: float = field(..., "LTE has its lowest throughput from this distance on", unit="m", gt=0)
    lte_up_min: float = _rate(7.0, "LTE, lowest throughput of sending")
    lte_up_max: float = _rate(17.0, "LTE, highest throughput of sending")
    lte_down_min: float = _rate(12.0, "LTE, lowest throughput of receiving")
    lte_down_max: float = _rate(36.0, "LTE, highest throughput of receiving")
    wifi_up: float = _rate(1000.0, "Wi-Fi, throughput of sending")
    wifi_down: float = _rate(1000.0, "Wi-Fi, throughput of receiving")
    wifi_range: float = field(
        100.0, "up to this distance from its access point a client uses Wi-Fi", unit="m", ge=0
    )
    d2d_max: float = _rate(250.0, "direct link, highest throughput")
    d2d_min: float = _rate(250.0, "direct link, lowest throughput")
    d2d_near: float = field(
        0.0, "up to this distance the direct link has its highest throughput", unit="m", ge=0
    )
    d2d_far: float = field(100.0, "from this distance on it has its lowest", unit="m", gt=0)

    @model_validator(mode="after")
    def _fits(self) -> LteWifiLink:
        for low, below, high, above in (
            ("lte_near", self.lte_near, "lte_far", self.lte_far),
            ("d2d_near", self.d2d_near, "d2d_far", self.d2d_far),
            ("lte_up_min", self.lte_up_min, "lte_up_max", self.lte_up_max),
            ("lte_down_min", self.lte_down_min, "lte_down_max", self.lte_down_max),
            ("d2d_min", self.d2d_min, "d2d_max", self.d2d_max),
        ):
            if below > above or (below == above and low.endswith("near")):
                raise ValueError(f"{low} = {below:g} is not below {high} = {above:g}")
        return self

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        """Wi-Fi, LTE or the direct link, by distance and by who is a client."""
        client = pair >= 0
        direct, up = client.all(axis=1), client[:, 0]
        lte = between(distance, self.lte_near, self.lte_far)
        d2d = between(distance, self.d2d_near, self.d2d_far)
        cellular = np.where(
            up,
            self.lte_up_max + lte * (self.lte_up_min - self.lte_up_max),
            self.lte_down_max + lte * (self.lte_down_min - self.lte_down_max),
        )
        wifi = np.where(up, self.wifi_up, self.wifi_down)
        infrastructure = np.where(distance <= self.wifi_range, wifi, cellular)
        return np.where(direct, self.d2d_max + d2d * (self.d2d_min - self.d2d_max), infrastructure) * BYTES
