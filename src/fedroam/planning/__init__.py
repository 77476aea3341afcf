"""Planning: from an experiment file and the command line to the runs that are meant."""
