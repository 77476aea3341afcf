"""Single messages to the server and to nodes that listen, as whoever wrote them sends them."""

from __future__ import annotations

from typing import Any

from support.waiting import HANGS


def one_answer(channel: Any, service: str, method: str, message: bytes, timeout: float = HANGS) -> bytes:
    """The first answer to one request, for which so many seconds are waited. Raises grpc.RpcError where it is
    refused."""
    call = channel.stream_stream(f"/{service}/{method}")(iter([message]), timeout=timeout)
    try:
        reply: bytes = next(call)
    finally:
        call.cancel()
    return reply
