"""Where samples come from: public data sets, generated ones, and the user's own."""

from fedroam.data.sources import cifar10 as cifar10
from fedroam.data.sources import csv_table as csv_table
from fedroam.data.sources import digits as digits
from fedroam.data.sources import mnist as mnist
from fedroam.data.sources import own as own
from fedroam.data.sources import unsw_nb15 as unsw_nb15
