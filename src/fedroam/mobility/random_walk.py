"""Random walks in a continuous world with reflecting walls, by groups of speeds."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from fedroam.components import Part, field, register
from fedroam.mobility.walls import reflected
from fedroam.mobility.world import FARTHEST, Paths, State, World
from fedroam.randomness import stream

# Up, down, left and right as the paper has them: its y axis points down.
DIRECTIONS = np.array([[0.0, -1.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]])

MOST_CROSSINGS = 1000  # of the world in a round, by the fastest: each is a breakpoint of a path

# Settings that patterns in a rectangle share.
WIDTH = field(500.0, "extent of the world along x (w)", unit="m", gt=0, le=FARTHEST)
HEIGHT = field(500.0, "extent of the world along y (h)", unit="m", gt=0, le=FARTHEST)

Share = Annotated[float, Field(ge=0, le=1)]
Speed = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def uniform_places(world: World, width: float, height: float) -> np.ndarray:
    """Start places uniform over the rectangle, float64 [clients, 2], m; they depend on the seed alone."""
    return stream(world.seed, "places").random((world.clients, 2)) * [width, height]


@register("mobility", "random_walk", source="de Heredia, Sec. 5.1, Eqs. 1 and 2")
class RandomWalk(Part):
    """Everybody walks straight for a round, at its own constant speed, and is thrown back by the walls.

    The direction is drawn each round: up, down, left or right, with probability 1/4 each. Start places are uniform.
    Low-mobility clients have speeds from U(0, max_speed), high-mobility ones from U(beta max_speed,
    2 beta max_speed); client i is of high mobility where i / clients < high_share. `speed_groups` replaces these
    two groups by any others, given in the order of the clients' indices.

    Places, directions and the uniform draw behind each speed depend on the seed and the client alone: experiments
    that differ in their groups are paired.
    """

    width: float = WIDTH
    height: float = HEIGHT
    max_speed: float = field(
        50.0, "highest speed of low-mobility clients (s_max)", unit="m/round", ge=0, allow_inf_nan=False
    )
    beta: float = field(
        1.75,
        "speeds of high-mobility clients begin at beta max_speed",
        unit="times max_speed",
        gt=1,
        allow_inf_nan=False,
    )
    high_share: float = field(0.2, "share of high-mobility clients (p)", ge=0, le=1)
    speed_groups: tuple[tuple[str, Share, Speed, Speed], ...] = field(
        (), "groups of your own: (name, share of the clients, lowest, highest speed), shares adding up to 1"
    )

    @model_validator(mode="after")
    def _walls_are_apart(self) -> RandomWalk:
        fastest, side = max(group[3] for group in self._speed_groups()), min(self.width, self.height)
        if fastest > MOST_CROSSINGS * side:
            raise ValueError(
                f"the fastest cross a world {side:g} m wide {fastest / side:g} times a round ({fastest:g} m): allowed "
                f"are up to {MOST_CROSSINGS} times"
            )
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> RandomWalk:
        if not self.speed_groups:
            return self
        for name, _, low, high in self.speed_groups:
            if low > high:
                raise ValueError(
                    f"speed_groups: group {name!r} has lowest speed {low:g} above its highest, {high:g}"
                )
        names = [group[0] for group in self.speed_groups]
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"speed_groups: found the names {', '.join(map(repr, names))}; each needs its own"
            )
        total = sum(group[1] for group in self.speed_groups)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"speed_groups: the shares add up to {total:g}, allowed is 1")
        for name, value in self.model_dump(include={"max_speed", "beta", "high_share"}).items():
            if value != type(self).model_fields[name].default:
                raise ValueError(f"{name} has no meaning with speed_groups: leave one of the two out")
        return self

    def start(self, world: World) -> dict[str, np.ndarray]:
        """Start places and speeds: `position` (m) and `speed` (float64 [clients], m per round)."""
        draws = stream(world.seed, "speeds").random(world.clients)
        groups = self._speed_groups()
        low, high = np.array([group[2:] for group in groups])[self._membership(world.clients)].T
        places = uniform_places(world, self.width, self.height)
        return {"position": places, "speed": low + draws * (high - low)}

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """One straight walk of everybody in a new direction, thrown back by the walls."""
        draws = stream(world.seed, "moves", round).random(world.clients)
        move = DIRECTIONS[(4 * draws).astype(np.int64)] * state["speed"][:, None]
        paths = reflected(state["position"], move, np.zeros(2), np.array([self.width, self.height]))
        return {**state, "position": paths.end}, paths

    def bounds(self) -> tuple[float, float, float, float]:
        """The corners of the rectangle."""
        return (0.0, 0.0, self.width, self.height)

    def groups(self, world: World) -> np.ndarray:
        """`high` and `low`, or the names of `speed_groups`."""
        return np.asarray(
            np.array([group[0] for group in self._speed_groups()])[self._membership(world.clients)]
        )

    def _speed_groups(self) -> tuple[tuple[str, float, float, float], ...]:
        fast = self.beta * self.max_speed
        return self.speed_groups or (
            ("high", self.high_share, fast, 2 * fast),
            ("low", 1 - self.high_share, 0.0, self.max_speed),
        )

    def _membership(self, clients: int) -> np.ndarray:
        """Which group each client belongs to, int64 [clients]: the first whose summed share exceeds i / clients."""
        ends = np.cumsum([group[1] for group in self._speed_groups()])
        # In clients, with some slack: 0.1 + 0.2 is a last bit more than 3 / 10, and would take one client too many.
        return np.searchsorted(ends[:-1] * clients - 1e-9, np.arange(clients), side="right")
