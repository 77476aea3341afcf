"""The server's address, told and found on the local network by multicast DNS (RFC 6762, RFC 6763).

What is found is an address and no more: anybody on the network can say anything. Whoever is dialled there must show the
very certificate that `site.toml` lists for the server, and a node shows its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from fedroam.deploy.site.file import Site
from fedroam.errors import InputError, MissingExtraError

try:
    from ifaddr import get_adapters
    from zeroconf import Error as ZeroconfError
    from zeroconf import (
        InterfaceChoice,
        IPVersion,
        NonUniqueNameException,
        ServiceInfo,
        Zeroconf,
    )
except ImportError:
    raise MissingExtraError("finding the server on the local network", "deploy") from None

KIND = "_fedroam._tcp.local."
LABEL = 60  # characters of a name in DNS, with some to spare
MOST = 8  # addresses that are looked at: nobody makes a node busy with a list of them
PATIENCE = 3.0  # seconds for an answer
Interfaces = Sequence[str] | None  # addresses of this machine, None for all of them


def instance(site: Site) -> str:
    """What the server of a site is called: by its certificate, which sites of one name do not share."""
    return f"{site.name}-{site.server.serial}"[:LABEL].rstrip("-") + f".{KIND}"


@contextlib.contextmanager
def announced(site: Site, address: str, port: int, interfaces: Interfaces = None) -> Iterator[None]:
    """Within it, the local network is told where a site's server listens.

    address: host:port that it was told to listen at; where that is everywhere, all addresses of this machine are told
    but those of loopback. Raises InputError where it cannot be told.
    """
    host = address.rpartition(":")[0].strip("[]")
    everywhere = host in ("", "0.0.0.0", "::", "*")
    try:
        own = [host] if not everywhere else _outward()
        info = ServiceInfo(
            KIND,
            instance(site),
            port=port,
            parsed_addresses=own,
            server=f"{instance(site).split('.')[0]}.local.",
        )
        speaking = Zeroconf(interfaces=list(interfaces) if interfaces else InterfaceChoice.All)
    except (OSError, ValueError, ZeroconfError) as error:
        raise InputError(f"--announce: the local network cannot be told of {address!r} ({error})") from None
    try:
        speaking.register_service(info)
        yield
    except NonUniqueNameException:
        raise InputError("--announce: another server of this site is announced on the network") from None
    finally:
        speaking.close()


def _outward() -> list[str]:
    """The addresses by which others reach this machine."""
    every = [each.ip for adapter in get_adapters() for each in adapter.ips]
    own = [ip_address(each if isinstance(each, str) else each[0]) for each in every]
    return [str(each) for each in own if not each.is_loopback and not each.is_link_local]


def found(site: Site, interfaces: Interfaces = None, patience: float = PATIENCE) -> list[str]:
    """Where a site's server is said to listen, host:port, the same ones in the same order; none where nobody says."""
    try:
        with contextlib.closing(
            Zeroconf(interfaces=list(interfaces) if interfaces else InterfaceChoice.All)
        ) as asking:
            info = asking.get_service_info(KIND, instance(site), int(1000 * patience))
            if info is None or not info.port:
                return []
            hosts = [
                each
                for version in (IPVersion.V4Only, IPVersion.V6Only)
                for each in info.parsed_scoped_addresses(version)
            ]
    except (OSError, ZeroconfError):  # no network now; there may be one at the next look
        return []
    return [
        f"[{host}]:{info.port}" if ":" in host else f"{host}:{info.port}" for host in sorted(hosts)[:MOST]
    ]
