"""XML, walked through without ever being held: no document type, no entities, nothing fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from xml.parsers import expat

from fedroam.data.sources.tables import unpacked
from fedroam.errors import InputError
from fedroam.traces.formats.reading import DAMAGE, UNREADABLE

Start = Callable[[str, Mapping[str, str], int], None]
End = Callable[[str, int], None]
Text = Callable[[str], None]
CHUNK = 1 << 18  # bytes


def walk(
    path: Path, start: Start, end: End | None = None, text: Text | None = None, comment: Text | None = None
) -> None:
    """Tell of every element of an XML file (gzip or not): start(name, attributes, line), end(name, line).

    Names come without prefix. text: the characters within elements, in pieces; comment: each comment. A document type
    declaration is refused, so that no entity is ever declared or expanded. Raises InputError with file and line for
    what is not well-formed, cut-off files among it.
    """
    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def declared(*_: object) -> None:
        raise InputError(
            f"{path}, line {parser.CurrentLineNumber}: a document type declaration (DOCTYPE), which traces do not "
            "need and which may be harmful; remove it"
        )

    begun = False

    def started(name: str, attributes: dict[str, str]) -> None:
        nonlocal begun
        begun = True
        start(name.rpartition(":")[2], attributes, parser.CurrentLineNumber)

    parser.StartDoctypeDeclHandler = declared
    parser.StartElementHandler = started
    if end is not None:
        ended = end
        parser.EndElementHandler = lambda name: ended(name.rpartition(":")[2], parser.CurrentLineNumber)
    if text is not None:
        parser.CharacterDataHandler = text
    if comment is not None:
        parser.CommentHandler = comment
    try:
        with unpacked(path) as file:
            while chunk := file.read(CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise InputError(f"{path}, line {error.lineno}: not XML, or damaged or cut off ({reason})") from None
    except (LookupError, ValueError) as error:  # of Python's own table of encodings, which expat asks
        if begun:
            raise
        raise InputError(
            f"{path}, line 1: its encoding cannot be read ({error}); allowed are UTF-8, UTF-16 and encodings of one "
            "byte a character"
        ) from None
    except DAMAGE as error:
        line = parser.CurrentLineNumber
        raise InputError(f"{path}, after line {line}: {UNREADABLE} ({error})") from None
