"""Contacts: who can talk to whom in a round, as a sparse graph."""

from fedroam.contacts import closest_approach as closest_approach
from fedroam.contacts import radius as radius
from fedroam.contacts import recorded as recorded
from fedroam.contacts.approach import Legs as Legs
from fedroam.contacts.duration import contact_durations as contact_durations
from fedroam.contacts.graph import Contacts as Contacts
from fedroam.contacts.graph import GoesByRound as GoesByRound
from fedroam.contacts.graph import degrees as degrees
from fedroam.contacts.graph import graph_of as graph_of
from fedroam.contacts.graph import in_round as in_round
from fedroam.contacts.graph import met as met
from fedroam.contacts.graph import pairs_of as pairs_of
from fedroam.contacts.graph import reach_of as reach_of
from fedroam.contacts.intervals import Intervals as Intervals
from fedroam.contacts.intervals import contact_intervals as contact_intervals
from fedroam.contacts.intervals import distance_at as distance_at
from fedroam.contacts.intervals import intervals_known as intervals_known
