"""Papers: the studies that come with fedroam, one folder a paper."""

from fedroam.papers.library import find_study as find_study
from fedroam.papers.library import studies as studies
