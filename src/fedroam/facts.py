"""What a file of fedroam's own must say: schemas of JSON and TOML, checked when a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from fedroam.errors import InputError


class Facts(BaseModel):
    """A JSON object; keys that it does not name are left alone: later versions may write more."""

    model_config = ConfigDict(strict=True, extra="allow")


def checked_facts(value: Mapping[str, Any], schema: type[Facts], path: Path) -> None:
    """Raise InputError, one line with file and key, where a value does not fit its schema."""
    try:
        schema.model_validate(value)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(step) for step in problem["loc"])
        found = repr(problem["input"])
        found = found if len(found) <= 60 else f"{found[:57]}..."
        said = problem["msg"].removeprefix("Value error, ")
        missing = problem["type"] == "missing"
        raise InputError(
            f"{path}: damaged: {key} is missing" if missing else f"{path}: damaged: {key} = {found}: {said}"
        ) from None
