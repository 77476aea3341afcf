"""Phones: Wi-Fi near an access point, LTE beyond, and a direct link between two of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import model_validator

from fedroam.components import Part, field, register
from fedroam.cost.link import RadioLink
from fedroam.cost.radio import Cost, DistanceDistribution
from fedroam.errors import InputError
from fedroam.federation import Traffic
from fedroam.links import between

ALPHA, POWER, RATE = "mW/Mbps", "mW", "Mbps"


def _positive(default: float, about: str, unit: str) -> float:
    value: float = field(default, about, unit=unit, gt=0, allow_inf_nan=False)
    return value


def _from_zero(default: float, about: str, unit: str) -> float:
    value: float = field(default, about, unit=unit, ge=0, allow_inf_nan=False)
    return value


@register(
    "radio", "lte_wifi", source="Farcas et al., Tables 1 and 2, Eqs. 1 and 2; Huang et al., MobiSys 2012"
)
class LteWifi(Part):
    """Clients pay for what they send and receive: power P = alpha t + beta at throughput t, for the time that it takes.

    Within `wifi_range` of its access point a client uses Wi-Fi, beyond it LTE. The throughput of LTE is the highest
    nearer than mean - std, the lowest beyond mean + std, and linear between: mean and standard deviation of the
    distances between the present clients and their access points over the whole run, each method's own. They are found
    by a pass over the movement alone, or set as `distance_mean` and `distance_std`. A sweep over access points sets
    them to those of its first run for all, unless `scale` is "own": measured by its own distances, a run hardly shows
    how dense its access points are. A transfer to or from a server, which stands nowhere, goes over LTE half way
    between its highest and its lowest throughput.

    Between two clients there is a direct link, which the paper does not have: the sender pays as for sending, the
    receiver as for receiving. By default it has the power of Wi-Fi and 250 Mbps, the nominal rate of Wi-Fi Direct, at
    any distance; with `d2d_min` it falls from `d2d_near` on, to `d2d_min` at `d2d_far`.

    Servers, clouds and access points pay nothing. What is charged for is `overhead` times the bytes of the model, and
    `extra` for each transfer (Delta in Eq. 1); the columns of bytes are the model's alone.

    The paper measures the energy of training and gives no model for it, so it is 0 until set: for each pass of a
    sample, `training_energy`, and `training_power` for `training_time`.
    """

    lte_alpha_up: float = _from_zero(438.39, "power of LTE when sending, by throughput", ALPHA)
    lte_alpha_down: float = _from_zero(51.97, "power of LTE when receiving, by throughput", ALPHA)
    lte_beta: float = _from_zero(1288.04, "power of LTE at no throughput", POWER)
    lte_up_min: float = _positive(7.0, "LTE, lowest throughput of sending", RATE)
    lte_up_max: float = _positive(17.0, "LTE, highest throughput of sending", RATE)
    lte_down_min: float = _positive(12.0, "LTE, lowest throughput of receiving", RATE)
    lte_down_max: float = _positive(36.0, "LTE, highest throughput of receiving", RATE)
    distance_mean: float | None = field(
        None,
        "mean distance between clients and access points, by which LTE is measured; not set: the run's own",
        unit="m",
        ge=0,
        allow_inf_nan=False,
    )
    distance_std: float | None = field(
        None, "its standard deviation; set both or none", unit="m", ge=0, allow_inf_nan=False
    )
    wifi_alpha_up: float = _from_zero(283.17, "power of Wi-Fi when sending, by throughput", ALPHA)
    wifi_alpha_down: float = _from_zero(137.01, "power of Wi-Fi when receiving, by throughput", ALPHA)
    wifi_beta: float = _from_zero(132.86, "power of Wi-Fi at no throughput", POWER)
    wifi_up: float = _positive(1000.0, "Wi-Fi, throughput of sending", RATE)
    wifi_down: float = _positive(1000.0, "Wi-Fi, throughput of receiving", RATE)
    wifi_range: float = field(
        100.0, "up to this distance from its access point a client uses Wi-Fi", unit="m", ge=0
    )
    d2d_alpha_up: float = _from_zero(283.17, "power of the direct link when sending, by throughput", ALPHA)
    d2d_alpha_down: float = _from_zero(
        137.01, "power of the direct link when receiving, by throughput", ALPHA
    )
    d2d_beta: float = _from_zero(132.86, "power of the direct link at no throughput", POWER)
    d2d_max: float = _positive(250.0, "direct link, highest throughput", RATE)
    d2d_min: float | None = field(
        None, "direct link, lowest throughput; not set: as the highest", unit=RATE, gt=0, allow_inf_nan=False
    )
    d2d_near: float = _from_zero(0.0, "up to this distance the direct link has its highest throughput", "m")
    d2d_far: float = _from_zero(100.0, "from this distance on it has its lowest", "m")
    overhead: float = field(
        1.0,
        "factor on the bytes sent: above 1 with headers, below 1 with compression",
        gt=0,
        allow_inf_nan=False,
    )
    extra: int = field(0, "bytes sent with each transfer besides", unit="bytes", ge=0)
    training_energy: float = _from_zero(0.0, "energy of training, for each pass of a sample", "J")
    training_power: float = _from_zero(0.0, "further power while training", "W")
    training_time: float = _from_zero(0.0, "time that training takes, for each pass of a sample", "s")
    training_factors: tuple[float, ...] = field(
        (1.0,), "factors on the training energy, of client 0, 1, ..., beginning again where there are fewer"
    )
    scale: Literal["own"] | None = field(
        None,
        "own: in a sweep over access points, too, each run measures LTE by its own distances; not set: there the first "
        "run's are distance_mean and distance_std of all (means nothing elsewhere)",
        identity=False,
    )

    @model_validator(mode="after")
    def _fits(self) -> LteWifi:
        for low, below, high, above in (
            ("lte_up_min", self.lte_up_min, "lte_up_max", self.lte_up_max),
            ("lte_down_min", self.lte_down_min, "lte_down_max", self.lte_down_max),
            ("d2d_min", self.d2d_min, "d2d_max", self.d2d_max),
        ):
            if below is not None and below > above:
                raise ValueError(f"{low} = {below:g} is above {high} = {above:g}")
        if self.d2d_near >= self.d2d_far:
            raise ValueError(f"d2d_near = {self.d2d_near:g} is not below d2d_far = {self.d2d_far:g}")
        if (self.distance_mean is None) != (self.distance_std is None):
            raise ValueError("distance_mean and distance_std: allowed are both or none")
        if self.scale is not None and self.distance_mean is not None:
            raise ValueError("scale and distance_mean: allowed is one of the two")
        if not self.training_factors or not all(0 <= factor < np.inf for factor in self.training_factors):
            raise ValueError(
                f"training_factors = {list(self.training_factors)}: allowed are numbers from 0 on, at least one"
            )
        return self

    def spread(self) -> DistanceDistribution | None:
        """What `distance_mean` and `distance_std` say."""
        if self.distance_mean is None or self.distance_std is None:
            return None
        return DistanceDistribution(self.distance_mean, self.distance_std)

    def cost(self, traffic: Traffic, distances: DistanceDistribution) -> Cost:
        """Wi-Fi, LTE or the direct link, for each transfer."""
        cost = Cost.nothing(len(traffic.bytes))
        extra = self.extra if traffic.along is None else np.where(traffic.along, 0, self.extra)
        megabits = 8e-6 * (self.overhead * traffic.bytes + extra)
        sent, received = traffic.sender >= 0, traffic.receiver >= 0
        direct, near = sent & received, traffic.distance <= self.wifi_range
        cellular = (sent ^ received) & ~near
        if not distances.known and np.isfinite(traffic.distance[cellular]).any():
            raise InputError(
                "radio.distance_mean: needed, for this federation does not tell the distances between clients and "
                "access points beforehand; set distance_mean and distance_std (m)"
            )
        for kind, uses, low, high in (
            (self._d2d, direct, self.d2d_near, self.d2d_far),
            (self._wifi, (sent ^ received) & near, 0.0, 1.0),
            (self._lte, cellular, distances.mean - distances.std, distances.mean + distances.std),
        ):
            if not uses.any():
                continue
            link, far = kind(), between(traffic.distance, low, high)
            for mine, (energy, time), pay in (
                (sent & uses, (cost.energy_up, cost.time_up), link.sending),
                (received & uses, (cost.energy_down, cost.time_down), link.receiving),
            ):
                if mine.all():
                    energy[:], time[:] = pay(megabits, far)
                else:
                    energy[mine], time[mine] = pay(megabits[mine], far[mine])
        return cost

    def training(self, clients: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Factor of the client times samples times energy of a pass."""
        factors = np.array(self.training_factors)[clients % len(self.training_factors)]
        return np.asarray(
            factors * samples * (self.training_energy + self.training_power * self.training_time)
        )

    def _lte(self) -> RadioLink:
        up, down = (self.lte_up_max, self.lte_up_min), (self.lte_down_max, self.lte_down_min)
        return RadioLink(self.lte_alpha_up, self.lte_alpha_down, self.lte_beta, up, down)

    def _wifi(self) -> RadioLink:
        up, down = (self.wifi_up, self.wifi_up), (self.wifi_down, self.wifi_down)
        return RadioLink(self.wifi_alpha_up, self.wifi_alpha_down, self.wifi_beta, up, down)

    def _d2d(self) -> RadioLink:
        rates = (self.d2d_max, self.d2d_max if self.d2d_min is None else self.d2d_min)
        return RadioLink(self.d2d_alpha_up, self.d2d_alpha_down, self.d2d_beta, rates, rates)
