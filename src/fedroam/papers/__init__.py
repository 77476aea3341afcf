"""Papers: the studies that come with fedroam, one folder a paper."""

from fedroam.papers.library import find_study, studies

__all__ = ["find_study", "studies"]
