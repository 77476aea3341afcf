"""The process of a client, a peer or an access point."""
