"""What the clock asks a federation: to whom its models are sent, and what of them is used."""

from __future__ import annotations

from dataclasses import dataclass

from fedroam.federation import (
    AveragesInPairs,
    Federation,
    GivesUpWork,
    SendsOneWay,
    SendsToNeighbours,
    SendsToServers,
    TakesPieces,
)


@dataclass(frozen=True)
class Timed:
    """A federation in each of the roles in which it can be timed; None where it has not that role.

    Whether an object has a role is looked up in all its attributes, which takes longer than some rounds do: so it is
    done once a run.
    """

    neighbours: SendsToNeighbours | None
    one_way: SendsOneWay | None
    pairs: AveragesInPairs | None
    pieces: TakesPieces | None
    servers: SendsToServers | None
    gives_up: GivesUpWork | None

    @classmethod
    def of(cls, federation: Federation) -> Timed:
        """The roles of a federation."""
        return cls(
            federation if isinstance(federation, SendsToNeighbours) else None,
            federation if isinstance(federation, SendsOneWay) else None,
            federation if isinstance(federation, AveragesInPairs) else None,
            federation if isinstance(federation, TakesPieces) else None,
            federation if isinstance(federation, SendsToServers) else None,
            federation if isinstance(federation, GivesUpWork) else None,
        )

    @property
    def in_pieces(self) -> bool:
        """Whether a part of a model, or an older one, can be used."""
        return self.pieces is not None and self.pieces.takes_pieces
