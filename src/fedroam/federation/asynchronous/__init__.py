"""Methods whose server takes each update when it arrives, however old the model is that it was trained from."""

from fedroam.federation.asynchronous import fedasync as fedasync
from fedroam.federation.asynchronous import fedbuff as fedbuff
