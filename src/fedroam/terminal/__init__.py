"""What a user has before them: Ctrl-C, and streams that may be full or gone."""
