"""Where a Ray cluster is said to be: whether anybody is there, and whether this process is there already.

Ray itself tries an address at which nobody listens for a quarter of an hour, and takes what it is connected to for
whatever it is asked.
"""

from __future__ import annotations

import importlib
import ipaddress
import os
import socket
from typing import Any

from fedroam.errors import InputError

LOCAL = "local"  # the address that means: a cluster of this machine alone
AUTO = "auto"  # the address that means: the cluster that Ray finds by itself
ALLOWED = "allowed is local, auto, HOST:PORT or ray://HOST:PORT"
ANSWER = 10.0  # seconds in which whoever listens is to answer

Place = tuple[str, int]  # host, port

# How HTTP/2 begins, which Ray speaks: what a client says first, then its settings, of which there are none. A server
# says its own settings at once.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME = 9  # bytes of a frame's beginning
_SETTINGS = bytes([4])  # what stands in its fourth where it is settings


def check_reachable(address: str, what: str) -> bool:
    """Raise InputError, beginning with `what`, where no Ray cluster answers at an address, in seconds.

    Whether one does: False where there is none to reach, as Ray begins one, or says at once that it knows of none.
    """
    if address == LOCAL:
        return False
    asked = (os.environ.get("RAY_ADDRESS") or AUTO) if address == AUTO else address
    if asked not in (LOCAL, AUTO) and place(asked) is None:
        source = ", which is RAY_ADDRESS" if asked != address else ""
        raise InputError(f"{what} {asked}{source}: is no address; {ALLOWED}")
    found = _for_ray(asked)
    if found is None:
        return False
    wrong = _wrong(found)
    if not wrong:
        return True
    given = told_place(found) if asked == AUTO else asked
    marks = [", which Ray found by itself"] if asked == AUTO else []
    if asked != address:
        marks.append(", which is RAY_ADDRESS")
    if place(given) != found:
        marks.append(f", for Ray {told_place(found)}")
    raise InputError(
        f"{what} {given}{''.join(marks)}: {wrong}; allowed is the address of a Ray cluster that is up, as `ray start "
        "--head` prints it on its first machine"
    )


def check_same(ray: Any, address: str, what: str) -> None:
    """Raise InputError where this process is connected to Ray already, and elsewhere than at an address.

    `local` and `auto` say of no cluster that it is another one.
    """
    wanted, there = place(address), _connected(ray)
    if wanted is None or there is None or "://" in address:  # Ray's client has a port of its own
        return
    if _alike(wanted, there) or _one_cluster(wanted):
        return
    raise InputError(
        f"{what} {address}: this process is connected to Ray at {told_place(there)} already; allowed is that address, "
        "auto, or ray.shutdown() before"
    )


def place(address: str) -> Place | None:
    """Host and port of HOST:PORT or ray://HOST:PORT, IPv6 in brackets; None for what is neither."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or "/" in bare or not (port.isascii() and port.isdigit()):
        return None
    return (bare, int(port)) if 0 < int(port) < 2**16 else None


def told_place(found: Place) -> str:
    """A place as it is written."""
    host, port = found
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _for_ray(address: str) -> Place | None:
    """Where Ray will look, which takes the name of this machine in a network for its `localhost`. None where it looks
    nowhere."""
    if "://" in address:
        return place(address)
    try:
        services: Any = importlib.import_module("ray._private.services")
        services.find_gcs_addresses.cache_clear()
        found = services.canonicalize_bootstrap_address(address)
    except ConnectionError:
        return None
    except (ImportError, AttributeError, TypeError, ValueError):  # Ray promises none of it
        found = address
    return None if found is None else place(found)


def _wrong(found: Place) -> str:
    """What is wrong with who is at a place; nothing where somebody speaks as Ray does."""
    try:
        with socket.create_connection(found, timeout=ANSWER) as line:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
                return ""  # nobody speaks before he is sure to whom
            line.sendall(_HELLO)
            said = b""
            while len(said) < _FRAME and (more := line.recv(_FRAME - len(said))):
                said += more
    except TimeoutError:
        return f"no answer in {ANSWER:g} s"
    except socket.gaierror as error:
        return f"no such host ({error.strerror})"
    except ConnectionRefusedError:
        return "nobody listens there (connection refused)"
    except UnicodeError:
        return "no such host (it is no name)"
    except OSError as error:
        return f"no connection ({error.strerror or error})"
    return "" if said[3:4] == _SETTINGS else "who listens there does not speak as Ray does"


def _connected(ray: Any) -> Place | None:
    """Where this process is connected to Ray; None where that is not told, as by Ray's client."""
    try:
        return place(str(ray.get_runtime_context().gcs_address))
    except Exception:  # of many types
        return None


def _alike(one: Place, other: Place) -> bool:
    """Whether two places are one, by the numbers of their hosts."""
    if one == other or one[1] != other[1]:
        return one == other
    numbers = [_numbers(each) for each in (one, other)]
    here = all(any(_is_here(number) for number in each) for each in numbers)
    return here or not numbers[0].isdisjoint(numbers[1])


def _numbers(found: Place) -> set[str]:
    try:
        return {str(each[4][0]) for each in socket.getaddrinfo(*found, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


def _is_here(number: str) -> bool:
    """Whether it is a number of this machine: nobody can listen at another's."""
    kind = socket.AF_INET6 if ipaddress.ip_address(number.partition("%")[0]).version == 6 else socket.AF_INET
    with socket.socket(kind, socket.SOCK_DGRAM) as line:
        try:
            line.bind((number, 0))
        except OSError:
            return False
    return True


def _one_cluster(wanted: Place) -> bool:
    """Whether who is at a place is the cluster that this process is connected to, which may have several names."""
    if _wrong(wanted):
        return False
    try:
        worker: Any = importlib.import_module("ray._private.worker")
        found = worker.ray._raylet.GcsClient(address=told_place(wanted)).cluster_id
        return bool(found == worker.global_worker.gcs_client.cluster_id)
    except Exception:  # Ray promises none of it
        return False
