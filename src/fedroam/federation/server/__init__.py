"""Server-based methods, one short file each on one loop."""

from fedroam.federation.server import baselines as baselines
from fedroam.federation.server import ditto as ditto
from fedroam.federation.server import fedavg as fedavg
from fedroam.federation.server import fedavgdbe as fedavgdbe
from fedroam.federation.server import fedfomo as fedfomo
from fedroam.federation.server import fedgh as fedgh
from fedroam.federation.server import fedproto as fedproto
from fedroam.federation.server import fedprox as fedprox
from fedroam.federation.server import gpfl as gpfl
from fedroam.federation.server import mocfl as mocfl
from fedroam.federation.server import moon as moon
from fedroam.federation.server import scaffold as scaffold
from fedroam.federation.server.loop import ServerLoop as ServerLoop
from fedroam.federation.server.loop import ServerRound as ServerRound
from fedroam.federation.server.loop import weighted_mean as weighted_mean
