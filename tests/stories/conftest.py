"""What the stories share: a folder of one's own, and commands that must end as expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedroam import components
from support.commands import Commands

Tell = Callable[..., str]


@pytest.fixture
def tell(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rough_pictures: None,
) -> Tell:
    """Call a command in the story's own folder; it must end with that code. Gives all its words, with single spaces."""
    monkeypatch.chdir(tmp_path)
    components.load_rooms()  # before the copy: what is imported once is registered once
    kept = {family: dict(parts) for family, parts in components._registry.items()}
    monkeypatch.setattr(components, "_registry", kept)  # parts of a story are known in it alone
    call = Commands(tmp_path, capsys)

    def words(*arguments: str, code: int = 0) -> str:
        answer = call(*arguments)
        assert answer.code == code, (arguments, answer.err)
        return " ".join(f"{answer.out} {answer.err}".split())

    return words
