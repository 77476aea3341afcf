"""Federation: who trains, who aggregates with whom."""

from fedroam.federation import decentralized
from fedroam.federation.protocol import Exchanged, Federation, Meeting, Setting, Traffic

__all__ = ["Exchanged", "Federation", "Meeting", "Setting", "Traffic", "decentralized"]
