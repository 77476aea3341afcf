"""Methods whose server takes each update when it arrives, however old the model is that it was trained from."""

from fedroam.federation.asynchronous import fedasync, fedbuff

__all__ = ["fedasync", "fedbuff"]
