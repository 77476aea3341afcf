"""Where tasks of a Ray cluster tell how far they are: a process of its own, which does not wait for torch."""

from __future__ import annotations

News = tuple[int, float | None]  # a round that is done, and the accuracy where it was measured


class MessageBoard:
    """An actor that tasks tell how far they are, and ask whether to stop. What it is told and gives is plain, so that
    nothing has to be imported for it."""

    def __init__(self) -> None:
        self._news: dict[str, News] = {}
        self._stop = False

    def post(self, digest: str, news: News | None) -> bool:
        """Take down how far a task has come (if it says so); whether it is to stop."""
        if news is not None:
            round, accuracy = news
            _, old = self._news.get(digest, news)
            self._news[digest] = round, old if accuracy is None else accuracy
        return self._stop

    def collect(self, stop: bool) -> dict[str, News]:
        """All news since the last call, by digest; with `stop`, all tasks are to stop."""
        self._stop = self._stop or stop
        news, self._news = self._news, {}
        return news
