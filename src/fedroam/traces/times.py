"""Times as sources write them, as seconds."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator, BeforeValidator

from fedroam.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_PATTERN = r"^(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?) ?(Z|UTC|[+-]\d\d:?\d\d)?$"
MIXED = "mixed"


def seconds(
    values: np.ndarray, timezone: str | None, column: str, where: Callable[[int], str], *, asked: bool = True
) -> tuple[np.ndarray, bool]:
    """Times (numbers, or texts [rows]) as float64 seconds [rows], and whether they are calendar times.

    Numbers are taken as they are. Texts are ISO 8601; calendar times come as seconds since 1970 UTC. Texts without a
    zone need `timezone` (an IANA name, or UTC); a local hour that the clock change skips or repeats comes as NaN.
    Texts with different offsets are refused unless `timezone` is "mixed". where(row) names a row in messages; asked:
    whether the user may be told to name a time zone. Raises InputError with the row.
    """
    if values.dtype.kind in "iuf":
        return values.astype(np.float64), False
    import pandas as pd

    codes, texts = pd.factorize(values)
    distinct = pd.Series(np.asarray(texts, dtype=object), dtype="object")

    def row(which: np.ndarray) -> int:
        return int(np.flatnonzero(which[codes])[0])

    numbers = pd.to_numeric(distinct, errors="coerce").to_numpy(np.float64)
    if np.isfinite(numbers).all():
        return numbers[codes], False
    parts = distinct.astype(str).str.extract(_PATTERN)
    wrong = parts[0].isna().to_numpy()
    if wrong.any():
        number = np.isfinite(numbers)
        k = row(~number if number[codes[0]] else wrong)  # the first that is not of the first row's kind
        found = repr(str(values[k]))
        if number.any():
            raise InputError(
                f"{where(k)}, column {column!r}: {found} among times of another kind; allowed are numbers of "
                "seconds, or ISO 8601, in all rows"
            )
        raise InputError(
            f"{where(k)}, column {column!r}: {found}, allowed are ISO 8601 times with a zone "
            "(2010-09-17T12:00:00Z) or numbers of seconds"
        )
    return _calendar(parts, timezone, column, where, row, asked)[codes], True


def _calendar(
    parts: pd.DataFrame,
    timezone: str | None,
    column: str,
    where: Callable[[int], str],
    row: Callable[[np.ndarray], int],
    asked: bool,
) -> np.ndarray:
    """Unix seconds of distinct ISO times, cut into time and zone."""
    import pandas as pd

    zones = parts[1].fillna("").replace({"UTC": "Z"}).str.replace(":", "").to_numpy(dtype=object)
    zones[(zones == "+0000") | (zones == "-0000")] = "Z"
    found = list(dict.fromkeys(zones))
    if len(found) > 1 and (timezone != MIXED or "" in found):
        k = sorted(row(zones == zone) for zone in found)[1]  # where the second zone begins
        shown = ", ".join(zone or "no zone" for zone in found)
        hint = "; if they are right, say --timezone mixed"
        if "" in found:
            hint = "; write a zone to the times that lack it"
        raise InputError(f"{where(k)}, column {column!r}: mixed time zones ({shown}), allowed is one{hint}")
    if found == [""]:
        if timezone in (None, MIXED):
            told = "say which, e.g. --timezone UTC or --timezone America/New_York"
            wanted = told if asked else "wanted are times with one, e.g. 2010-09-17T12:00:00Z"
            raise InputError(f"{where(0)}, column {column!r}: no time zone; {wanted}")
        times = _parsed(parts[0], column, where, row)
        try:
            times = times.dt.tz_localize(timezone, ambiguous="NaT", nonexistent="NaT")
        except (KeyError, ValueError):  # ZoneInfoNotFoundError is a KeyError
            raise InputError(
                f"timezone {timezone!r}: unknown; allowed are IANA names such as Europe/Rome, and UTC"
            ) from None
    else:
        if timezone not in (None, MIXED):
            raise InputError(
                f"{where(0)}, column {column!r}: times carry a zone, so --timezone {timezone} has no meaning"
            )
        times = _parsed(parts[0] + pd.Series(zones, index=parts.index), column, where, row)
    epoch = pd.Timestamp(0, tz="UTC")
    try:
        passed = times - epoch
    except pd.errors.OutOfBoundsDatetime:
        # Nanoseconds end in 2262, and logs write 9999-12-31 for what has no end.
        passed = times.dt.as_unit("us") - epoch.as_unit("us")
    since: pd.Series = passed / pd.Timedelta(seconds=1)
    return since.to_numpy(np.float64, na_value=np.nan)


def _parsed(
    texts: pd.Series, column: str, where: Callable[[int], str], row: Callable[[np.ndarray], int]
) -> pd.Series:
    import pandas as pd

    utc = bool(texts.str.contains(r"(?:Z|[+-]\d{4})$").all())
    times = pd.to_datetime(texts, format="ISO8601", utc=utc, errors="coerce")
    if times.isna().any():  # nanoseconds end in 2262: what is later is read to the microsecond
        cut = texts.str.replace(r"(\.\d{6})\d+", r"\1", regex=True)
        times = pd.to_datetime(cut, format="ISO8601", utc=utc, errors="coerce")
    if times.isna().any():
        k = row(times.isna().to_numpy())
        raise InputError(f"{where(k)}, column {column!r}: {texts[times.isna()].iloc[0]!r} is no date")
    return times


def _a_time(value: str | float | None) -> str | float | None:
    if isinstance(value, str):
        moment(value)
    elif value is not None and not math.isfinite(value):
        raise ValueError("allowed is a finite number of seconds, or an ISO 8601 time")
    return value


def _as_text(value: object) -> object:
    """TOML's own dates and times, as the text that says the same."""
    return value.isoformat() if isinstance(value, datetime.date) else value


# A setting that is a time, if it is set: finite, or one that `moment` knows.
Begin = Annotated[str | float | None, BeforeValidator(_as_text), AfterValidator(_a_time)]


def moment(text: str) -> float:
    """Unix seconds of an ISO 8601 time; a date, or a time without zone, is UTC. Raises ValueError."""
    import pandas as pd

    try:
        given: pd.Timestamp | None = pd.Timestamp(text)
    except ValueError:
        given = None
    if given is None or pd.isna(given) or not text[:4].isdigit() or text[4:5] != "-":
        raise ValueError("allowed is a number of seconds or an ISO 8601 time such as 2010-09-17T00:00:00Z")
    given = given.tz_localize("UTC") if given.tzinfo is None else given
    return given.timestamp()
