"""Connections of nodes: mutual TLS to one certificate, and what both ends of it hold to."""

from __future__ import annotations

import errno
import socket
import sys
from ipaddress import ip_address
from typing import Any

from fedroam.deploy.messages import HEADER
from fedroam.deploy.site.file import Site, SiteNode
from fedroam.deploy.site.identity import Credentials
from fedroam.deploy.transfers import FEWEST, MOST
from fedroam.errors import FedroamError, InputError, MissingExtraError

try:
    import grpc
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

# The services of the server, which nodes attend, and of nodes that listen to each other.
SITE_SERVICE, HOLDER_SERVICE = "fedroam.Site", "fedroam.Holder"
# What the server says to whoever may attend, before it asks anything: a call without it has not been let in.
LET_IN = ("fedroam-let-in", "1")
HANDSHAKE = 10_000  # ms in which a caller must have shown its certificate
# Connections of a node to one that listens: to each of eight addresses at which that was found, and the site's own,
# and some that broke without a word. Beside them there is room for strangers until they are hung up on, so that a few
# keep no node from connecting.
CONNECTIONS, STRANGERS = 12, 512
FILES = 65_536  # that a process which listens wants to be able to open
KEEPALIVE = 10_000  # ms between two looks at whether a silent node is still there


def channel_options(chunk: int) -> list[tuple[str, Any]]:
    """What both ends of a connection hold to: sizes of messages, how much of a transfer that nobody reads lies in
    memory, and how soon a dead link is noticed."""
    return [
        # Otherwise gRPC lets that much grow with the link, for whoever sends.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", max(MOST, FEWEST * chunk) + HEADER),
        ("grpc.max_receive_message_length", chunk + 2 * HEADER),
        ("grpc.max_send_message_length", chunk + 2 * HEADER),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE),
        ("grpc.keepalive_time_ms", KEEPALIVE),
        ("grpc.keepalive_timeout_ms", KEEPALIVE),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE // 2),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE // 2),
        ("grpc.enable_http_proxy", 0),
        ("grpc.so_reuseport", 0),
    ]


def listening_options(nodes: int, chunk: int) -> list[tuple[str, Any]]:
    """What one that listens to so many nodes holds to: the same, and how many connections there are at a time, of
    strangers too, and calls on each. From then on this process may open as many files as that needs, where the system
    lets it."""
    files, connections = _files(), CONNECTIONS * nodes + STRANGERS
    return [
        *channel_options(chunk),
        ("grpc.max_concurrent_streams", 8),
        ("grpc.max_allowed_incoming_connections", min(connections, files // 2) if files else connections),
    ]


def _files() -> int:
    """How many files this process may open: `FILES`, where the system lets it; 0 where there is no limit to ask for."""
    if sys.platform == "win32":
        return 0
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return max(soft, 0)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS says that there is no limit, and has one
        return soft
    return wanted


def server_credentials(own: Credentials) -> Any:
    """What one that listens shows; whoever calls it must show a certificate of the same authority."""
    return grpc.ssl_server_credentials(
        [(own.key, own.certificate)], root_certificates=own.authority, require_client_auth=True
    )


def not_open(address: str, problem: str, otherwise: str = "") -> FedroamError:
    """The error of one who cannot listen at host:port: an InputError, which says so where another process has the port,
    but where this machine does not have the address now. It may be on its way, as where a unit starts before the
    network is up, so that trying again helps; otherwise: what helps where it is not."""
    host, _, port = address.rpartition(":")
    for number in (0, int(port or 0)):  # at a free port the address alone is tried
        try:
            for family, kind, protocol, _, place in socket.getaddrinfo(
                host.strip("[]"), number, type=socket.SOCK_STREAM
            ):
                with socket.socket(family, kind, protocol) as probe:
                    probe.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return FedroamError(
                    f"address {address!r}: this machine does not have it, or not yet{otherwise}"
                )
            if error.errno == errno.EADDRINUSE:
                return InputError(
                    f"address {address!r}: port {port} is in use by another process; choose another port, or 0 for one "
                    "that is free"
                )
    return InputError(f"address {address!r}: {problem}")


def everywhere(host: str) -> bool:
    """Whether who listens at such a host does so at all addresses that its machine has: others reach it at none of
    that name."""
    return host.strip("[]") in ("", "0.0.0.0", "::", "*")


def addresses(host: str) -> list[str]:
    """The addresses of a host, or the one that it is; none where its name is not known here."""
    try:
        found = {place[0] for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return []
    return sorted(each for each in found if isinstance(each, str))


def unreachable(host: str) -> str:
    """The address of this machine's own that a name stands for here, where others reach none of them: Debian says that
    a machine's name is 127.0.1.1. Empty for any other, and for `localhost`, which is meant so."""
    found = [] if host == "localhost" else addresses(host)
    own = found and host not in found and all(ip_address(each.split("%")[0]).is_loopback for each in found)
    return found[0] if own else ""


def dialled(site: Site, own: Credentials, node: SiteNode, address: str) -> Any:
    """A channel to a node's very certificate: whoever shows another one is not spoken to."""
    secure = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    options = [
        *channel_options(site.limits.chunk),
        ("grpc.ssl_target_name_override", node.host(site.name)),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return grpc.secure_channel(address, secure, options)
