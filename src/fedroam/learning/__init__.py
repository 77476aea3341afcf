"""Learning: local training and evaluation of many models, held as rows of one matrix."""

from fedroam.learning import auto as auto
from fedroam.learning import batched as batched
from fedroam.learning import cpu as cpu
from fedroam.learning import objective as objective
from fedroam.learning import reference as reference
from fedroam.learning import training as training
from fedroam.learning.auto import device_of as device_of
from fedroam.learning.engine import Anchor as Anchor
from fedroam.learning.engine import Engine as Engine
from fedroam.learning.engine import Evaluates as Evaluates
from fedroam.learning.engine import Job as Job
from fedroam.learning.engine import Learner as Learner
from fedroam.learning.engine import Scores as Scores
from fedroam.learning.engine import Task as Task
from fedroam.learning.engine import make_network as make_network
from fedroam.learning.engine import start_models as start_models
from fedroam.learning.engine import to_tensors as to_tensors
from fedroam.learning.exchange import mix as mix
from fedroam.learning.held import ClassMeans as ClassMeans
from fedroam.learning.held import Held as Held
from fedroam.learning.matrix import Entry as Entry
from fedroam.learning.matrix import Layout as Layout
from fedroam.learning.matrix import Models as Models
from fedroam.learning.matrix import consensus_distance as consensus_distance
