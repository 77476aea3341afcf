"""Addresses of the server, peers and access points, told and found on the local network by multicast DNS (RFC 6762,
RFC 6763).

What is found is an address and no more: anybody on the network can say anything. Whoever is dialled there must show the
very certificate that `site.toml` lists for it, and a node shows its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from fedroam.deploy.connections import addresses, everywhere
from fedroam.deploy.site.file import Site, SiteNode
from fedroam.errors import MissingExtraError

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
    raise MissingExtraError("finding others on the local network", "deploy") from None

KIND = "_fedroam._tcp.local."
LABEL = 60  # characters of a name in DNS, with some to spare
MOST = 8  # addresses that are looked at: nobody makes a node busy with a list of them
# Seconds for an answer. Who has just told everybody waits a second before it tells again (RFC 6762, Sec. 6), so that
# within one second those are missed whom another node asked a moment ago; and a lost question is asked once more.
PATIENCE = 3.0
AT_ONCE = 256  # that are asked for: whoever is not there keeps nobody else waiting
Interfaces = Sequence[str] | None  # addresses of this machine, None for all of them


def instance(site: Site, node: SiteNode | None = None) -> str:
    """What a node (default: the server) is called: by its certificate, which sites of one name do not share."""
    return f"{site.name}-{(node or site.server).serial}"[:LABEL].rstrip("-") + f".{KIND}"


@contextlib.contextmanager
def announced(
    site: Site,
    address: str,
    port: int,
    tell: Callable[[str], None],
    interfaces: Interfaces = None,
    node: SiteNode | None = None,
    patience: float = 0.0,
) -> Iterator[None]:
    """Within it, the local network is told where a node (default: the server) of a site listens.

    address: host:port that it was told to listen at; where that is everywhere, all addresses of this machine are told
    but those of loopback. Where that cannot be done, as when a stranger has taken the name, a line is told, and it goes
    on: who knows the address comes all the same. patience: seconds that a stranger has to answer to the name before the
    probes of RFC 6762, Sec. 8.1, begin, which wait for a second in all.
    """
    owner = (node or site.server).name
    with contextlib.ExitStack() as speaking:
        try:
            voice = Zeroconf(interfaces=list(interfaces) if interfaces else InterfaceChoice.All)
            speaking.callback(voice.close)
            if patience and _told(voice, instance(site, node), patience):
                raise NonUniqueNameException
            voice.register_service(_service(site, node, address, port))
        except NonUniqueNameException:
            tell(f"{owner}: somebody else is announced on the local network by its name")
        except (OSError, ValueError, ZeroconfError) as error:
            tell(f"{owner}: the local network cannot be told of {address!r} ({error})")
        yield


def _service(site: Site, node: SiteNode | None, address: str, port: int) -> ServiceInfo:
    host = address.rpartition(":")[0].strip("[]")
    name = instance(site, node)
    told = _outward() if everywhere(host) else addresses(host)
    if not (told or everywhere(host)):
        raise ValueError(f"{host} is no address, nor a name that is known here")
    return ServiceInfo(
        KIND,
        name,
        port=port,
        parsed_addresses=told,
        server=f"{name.split('.')[0]}.local.",
    )


def _outward() -> list[str]:
    """The addresses by which others reach this machine."""
    every = [each.ip for adapter in get_adapters() for each in adapter.ips]
    own = [ip_address(each if isinstance(each, str) else each[0]) for each in every]
    return [str(each) for each in own if not each.is_loopback and not each.is_link_local]


def found(site: Site, interfaces: Interfaces = None, patience: float = PATIENCE) -> list[str]:
    """Where a site's server is said to listen, host:port, the same ones in the same order; none where nobody says."""
    return heard(site, [site.server], interfaces, patience)[0]


def heard(
    site: Site, nodes: Sequence[SiteNode], interfaces: Interfaces = None, patience: float = PATIENCE
) -> list[list[str]]:
    """The same of several nodes: who is not there now is not found, whatever was told before."""
    try:
        with (
            contextlib.closing(
                Zeroconf(interfaces=list(interfaces) if interfaces else InterfaceChoice.All)
            ) as asking,
            ThreadPoolExecutor(min(AT_ONCE, len(nodes) or 1)) as asked,
        ):
            return list(asked.map(lambda node: _told(asking, instance(site, node), patience), nodes))
    except (OSError, ZeroconfError):  # no network now; there may be one at the next look
        return [[] for _ in nodes]


def _told(asking: Zeroconf, name: str, patience: float) -> list[str]:
    """Where one of this name is said to listen."""
    info = asking.get_service_info(KIND, name, int(1000 * patience))
    if info is None or not info.port:
        return []
    hosts = [
        each
        for version in (IPVersion.V4Only, IPVersion.V6Only)
        for each in info.parsed_scoped_addresses(version)
    ]
    return [
        f"[{host}]:{info.port}" if ":" in host else f"{host}:{info.port}" for host in sorted(hosts)[:MOST]
    ]
