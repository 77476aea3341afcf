"""Mixing: the weights of an exchange, as a sparse matrix, and the rules that see the models themselves."""

from fedroam.mixing import balance as balance
from fedroam.mixing import clipped_gossip as clipped_gossip
from fedroam.mixing import contact_duration as contact_duration
from fedroam.mixing import coordinate_wise as coordinate_wise
from fedroam.mixing import krum as krum
from fedroam.mixing import mobility_aware as mobility_aware
from fedroam.mixing.aggregation import Aggregation as Aggregation
from fedroam.mixing.aggregation import Average as Average
from fedroam.mixing.aggregation import Received as Received
from fedroam.mixing.facts import Fact as Fact
from fedroam.mixing.facts import Facts as Facts
from fedroam.mixing.facts import Surroundings as Surroundings
from fedroam.mixing.facts import needs_of as needs_of
from fedroam.mixing.weights import Mixing as Mixing
from fedroam.mixing.weights import entries as entries
from fedroam.mixing.weights import matrix as matrix
from fedroam.mixing.weights import weights_of as weights_of
