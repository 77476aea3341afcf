"""The server of a site: it plays the rounds with clients that are elsewhere."""
