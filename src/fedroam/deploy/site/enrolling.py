"""Nodes whose keys are made where they stay: a ticket lets one ask, its request is signed, and the key never travels.

The one who has the authority's key allows a node, by name, to enrol, and gives it a ticket: a secret that is good once,
and for some hours. The node makes a key, and a request (PKCS #10, RFC 2986) that is signed with it and carries a proof
that it has the ticket: an HMAC by the secret over the key (RFC 2104), so that who reads a request cannot put a key of
his own in its place. A request says who asks, and no more: name, site and role are those of `site.toml`.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import re
import secrets
import tomllib
from pathlib import Path

import tomli_w
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from fedroam.deploy.site.file import (
    AUTHORITY,
    CERTIFICATE,
    FILE,
    KEY,
    NAME,
    NEXT_KEY,
    NODES,
    Site,
    read_site,
    to_change,
)
from fedroam.deploy.site.identity import (
    certificate_of,
    certified,
    home_of,
    key_of,
    pem,
    write_certificate,
    write_secret,
)
from fedroam.errors import InputError, MissingExtraError, one_line
from fedroam.writing import write_aside

try:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import AttributeOID, NameOID
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

# What a node is given, what it makes of it, and where the site keeps who is awaited.
TICKET, REQUEST, AWAITED = "ticket.toml", "request.pem", "awaited"
HOURS = 24.0
LARGEST = 16_384  # bytes of a request or a ticket
BEGIN = b"-----BEGIN"
# What is raised, beside ValueError, where a request is not what the standard says.
_UNREADABLE = (
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class _Ticket(BaseModel):
    """That a node may enrol. until: by the clock of whoever signs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    site: str = Field(pattern=f"^{NAME}$")
    name: str = Field(pattern=f"^{NAME}$")
    secret: str = Field(pattern="^[0-9a-f]{64}$")
    until: AwareDatetime

    def proof(self, key: ec.EllipticCurvePublicKey) -> bytes:
        """What only who has the ticket can say of a key (hexadecimal)."""
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        said = f"fedroam://{self.site}/{self.name} ".encode()
        said += key.public_bytes(serialization.Encoding.DER, kind)
        return hmac.new(bytes.fromhex(self.secret), said, hashlib.sha256).hexdigest().encode()


# --- where the authority's key is ---------------------------------------------------------------------------------


def allow(folder: Path, name: str, hours: float = HOURS) -> Path:
    """Let a node of a site enrol, once and within so many hours; the path of its ticket, in its folder.

    An earlier ticket of the node is good for nothing from now on. Raises InputError where the site has no such node.
    """
    site = read_site(folder / FILE)
    site.named(name)
    until = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(hours=hours)
    ticket = _Ticket(site=site.name, name=name, secret=secrets.token_hex(32), until=until)
    text = tomli_w.dumps(ticket.model_dump()).encode()
    awaited = _awaited(folder, name)
    awaited.parent.mkdir(exist_ok=True)
    awaited.parent.chmod(0o700)
    path = home_of(folder, name) / TICKET
    for each in (awaited, path):
        write_secret(each, text)
    return path


def withdraw(folder: Path, name: str) -> None:
    """A node's ticket is good for nothing any more, if it has one."""
    for path in (_awaited(folder, name), folder / NODES / name / TICKET):
        path.unlink(missing_ok=True)


def sign(folder: Path, name: str, request: Path, days: float) -> None:
    """Give a node the certificate that a file asks for, valid for so many days: it is written into the node's folder,
    and listed in `site.toml`; the ticket is used up, and a key that was here is deleted.

    Raises InputError, and changes nothing, where the file is no request, or one that may not be granted.
    """
    sign_request(folder, name, _small(request), str(request), days)


def sign_request(folder: Path, name: str, data: bytes, source: str, days: float) -> None:
    """The same of a request (PEM) that came another way; source: how errors name it."""
    with to_change(folder) as site:
        _signed(folder, site, name, data, source, days)


def _signed(folder: Path, site: Site, name: str, data: bytes, source: str, days: float) -> None:
    node = site.named(name)
    again = f"fedroam site enrol {folder} {name}"
    path = _awaited(folder, name)
    if not path.is_file():
        raise InputError(
            f"{source}: {name} is not awaited, or has enrolled already: {again} gives it a ticket"
        )
    ticket = _ticket(path)
    key = _granted(data, source, site, ticket)
    if datetime.datetime.now(datetime.UTC) > ticket.until:
        raise InputError(
            f"{source}: the ticket of {name} was good until {ticket.until}: {again} gives another"
        )
    _unlike_others(folder, site, name, key, source)
    node, certificate = certified(folder, site.name, node, key, days)
    home = home_of(folder, name)
    write_certificate(home, certificate)
    site.changed(node).write(folder)
    withdraw(folder, name)
    if key_of(home, certificate) != home / KEY:  # of the certificate before
        (home / KEY).unlink(missing_ok=True)


def _granted(data: bytes, source: str, site: Site, ticket: _Ticket) -> ec.EllipticCurvePublicKey:
    """The key of a request for the node of a ticket. Raises InputError where it is none, asks for more than a node may,
    or does not come from who has the ticket."""
    if len(data) > LARGEST:
        raise InputError(f"{source}: is larger than a request may be, {LARGEST} bytes")
    if data.count(BEGIN) != 1:
        raise InputError(f"{source}: is not one certificate signing request (PEM)")
    try:
        request = x509.load_pem_x509_csr(data)
        names = [(each.oid, each.value) for each in request.subject]
        asked = [each.oid.dotted_string for each in request.extensions]
        proofs = [each.value for each in request.attributes if each.oid == AttributeOID.CHALLENGE_PASSWORD]
        key, signed = request.public_key(), request.is_signature_valid
    except (ValueError, TypeError, *_UNREADABLE) as error:
        said = "wanted is PEM, whole" if "PEM" in str(error) else one_line(str(error))[:200]
        raise InputError(f"{source}: is no certificate signing request ({said})") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(f"{source}: has a key of another kind; keys are on the curve P-256")
    if not signed:
        raise InputError(f"{source}: is not signed with its own key: it was changed, or the key is another's")
    if names != [(NameOID.COMMON_NAME, ticket.name)]:
        said = ", ".join(one_line(str(value))[:60] for _, value in names[:4])
        raise InputError(
            f"{source}: asks for {said or 'nobody'!r}, allowed here is {ticket.name!r} and no more"
        )
    if asked:
        raise InputError(
            f"{source}: asks for more than a name ({asked[0]:.60}): what a node is, {FILE} alone says"
        )
    if len(proofs) != 1 or not hmac.compare_digest(proofs[0], ticket.proof(key)):
        raise InputError(f"{source}: is not made with the present ticket of {ticket.name}")
    return key


def _unlike_others(folder: Path, site: Site, name: str, key: ec.EllipticCurvePublicKey, source: str) -> None:
    """Refuse a key that is another's, as on a card that was copied. Raises InputError."""
    for other, path in {
        "the authority": folder / AUTHORITY,
        **{each.name: folder / NODES / each.name / CERTIFICATE for each in site.nodes if each.name != name},
    }.items():
        if path.is_file() and certificate_of(path.read_bytes()).public_key() == key:
            raise InputError(f"{source}: its key is that of {other}: each node makes one of its own")


def _awaited(folder: Path, name: str) -> Path:
    return folder / AWAITED / f"{name}.toml"


# --- where the node is --------------------------------------------------------------------------------------------


def request_certificate(folder: Path, name: str) -> Path:
    """Make a key for a node, here where it stays, and the request for its certificate; the path of the request.

    The ticket, in the node's folder, is used up. A key in use stays in use until the new certificate is here. Raises
    InputError where there is no ticket of this node.
    """
    if not re.fullmatch(NAME, name):
        raise InputError(f"{name!r}: is no name of a node")
    home = folder / NODES / name
    path = home / TICKET
    if not path.is_file():
        raise InputError(f"{path}: no such file; fedroam site enrol DIR {name}, where the site is, makes it")
    ticket = _ticket(path)
    if ticket.name != name:
        raise InputError(f"{path}: is the ticket of {ticket.name}, not of {name}")
    certificate = home / CERTIFICATE
    if certificate.is_file() and _fits(home, certificate) == home / NEXT_KEY:
        (home / NEXT_KEY).replace(home / KEY)  # its time has come: the certificate is here
    key = ec.generate_private_key(ec.SECP256R1())
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .add_attribute(AttributeOID.CHALLENGE_PASSWORD, ticket.proof(key.public_key()))
        .sign(key, hashes.SHA256())
    )
    home.chmod(0o700)
    write_secret(home / NEXT_KEY, pem(key))
    text = asked.public_bytes(serialization.Encoding.PEM)
    write_aside(home / REQUEST, lambda aside: aside.write_bytes(text))
    path.unlink()
    return home / REQUEST


def _fits(home: Path, certificate: Path) -> Path | None:
    try:
        return key_of(home, certificate.read_bytes())
    except ValueError as error:
        raise InputError(f"{certificate}: is no certificate of a node ({one_line(str(error))})") from None


def _ticket(path: Path) -> _Ticket:
    """The ticket of a file. Raises InputError where it is none."""
    data = _small(path)
    try:
        return _Ticket.model_validate(tomllib.loads(data.decode()))
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise InputError(f"{path}: is no ticket: {key:.60}: {one_line(problem['msg']):.200}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no ticket (it is no text in UTF-8)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no ticket ({one_line(str(error)):.200})") from None


def _small(path: Path) -> bytes:
    """What a file begins with, one byte more than it may have."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
