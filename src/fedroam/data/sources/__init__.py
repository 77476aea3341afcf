"""Where samples come from: public data sets, generated ones, and the user's own."""

from fedroam.data.sources import cifar10, csv_table, digits, mnist, own, unsw_nb15

__all__ = ["cifar10", "csv_table", "digits", "mnist", "own", "unsw_nb15"]
