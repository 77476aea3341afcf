"""Methods that take each update when it arrives, however old the model is that it was trained from."""

from fedroam.federation.asynchronous import fedasync as fedasync
from fedroam.federation.asynchronous import fedbuff as fedbuff
from fedroam.federation.asynchronous import hierarchies as hierarchies
