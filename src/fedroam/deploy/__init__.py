"""The same experiment on a network: processes and links in the place of simulated clients, under the same rules."""
