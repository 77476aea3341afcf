"""Who a node is: a certificate of the site's own authority, its role written into it, and keys that stay at home."""

from __future__ import annotations

import datetime
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedroam.deploy.site.file import (
    AUTHORITY,
    AUTHORITY_KEY,
    CALLERS,
    CERTIFICATE,
    FILE,
    KEY,
    NAME,
    NEXT_KEY,
    NODES,
    Role,
    Site,
    SiteNode,
    read_site,
    to_change,
)
from fedroam.errors import FedroamError, InputError, MissingExtraError, one_line
from fedroam.writing import write_aside

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

AUTHORITY_DAYS = 3650
DAYS = 365.0  # of nodes
SOON = datetime.timedelta(
    days=30
)  # before a certificate ends, in which its node says so; a tenth of short ones
SLACK = datetime.timedelta(days=1)  # a device whose clock is behind takes a new certificate, too

AGAIN = 1.0  # seconds between two tries to read a file of which a try has failed


@dataclass(frozen=True)
class Identity:
    """What a certificate says of its holder."""

    site: str
    role: str
    name: str
    serial: str
    begins: datetime.datetime
    ends: datetime.datetime


@dataclass(frozen=True)
class Credentials:
    """What a node shows and trusts, each as PEM."""

    key: bytes
    certificate: bytes
    authority: bytes


def identity_of(certificate: bytes) -> Identity:
    """The identity in a certificate (PEM) whose signature has been checked. Raises ValueError where it has none."""
    found = certificate_of(certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    told = [
        re.fullmatch(f"fedroam://({NAME})/([a-z_]+)/({NAME})", uri)
        for uri in names.get_values_for_type(x509.UniformResourceIdentifier)
    ]
    if len(told) != 1 or told[0] is None:
        raise ValueError("a certificate without a role")
    site, _, role, name, _ = told[0].groups()
    return Identity(
        site, role, name, f"{found.serial_number:x}", found.not_valid_before_utc, found.not_valid_after_utc
    )


def certificate_of(data: bytes) -> x509.Certificate:
    """The certificate that a PEM file holds. Raises ValueError where it holds none."""
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:  # whose words are those of a library, and lead to its page of questions
        raise ValueError("wanted is PEM, whole, from -----BEGIN CERTIFICATE----- on") from None


class Callers:
    """The nodes of a site that may call one of this role.

    folder: of `site.toml`, which is read again when it changes. tell: is told when it cannot be.
    """

    def __init__(self, folder: Path, role: Role, tell: Callable[[str], None]) -> None:
        self.folder, self._tell = folder, tell
        self.allowed = CALLERS.get(role, ())
        self._read = self._stamp()  # before it is read: what changes meanwhile is read anew
        self.site = read_site(folder / FILE)
        self._failed: tuple[int, ...] | None = None  # the stamp with which it could not be read
        self._again = 0.0  # when it is tried again then, s
        self._identities: dict[bytes, Identity] = {}

    def problem(self, context: Any) -> str | None:
        """Why the holder of the certificate of a call may not speak here, or None."""
        try:
            own = self._identity(context)
        except (ValueError, FedroamError) as error:
            return one_line(str(error))
        site = self.site_now()
        node = site.node(own.name)
        if own.site != site.name or node is None:
            return f"{own.role} {own.name!r} of site {own.site!r} is no node of this site"
        if own.role != node.role or node.role not in self.allowed:
            allowed = " and ".join(f"{role.replace('_', ' ')}s" for role in self.allowed)
            return f"{own.name} comes as {own.role}, allowed are {allowed}"
        if node.revoked:
            return f"the certificate of {own.name} is revoked"
        if own.serial != node.serial:
            return f"{own.name} comes with a certificate that is not its present one"
        if not own.begins <= datetime.datetime.now(datetime.UTC) <= own.ends:
            return f"the certificate of {own.name} is not valid now: from {own.begins} to {own.ends}"
        return None

    def node(self, context: Any) -> SiteNode:
        """The node that calls, of whom `problem` knows none."""
        found = self.site.node(self._identity(context).name)
        assert found is not None
        return found

    def _identity(self, context: Any) -> Identity:
        shown = context.auth_context().get("x509_pem_cert")
        if not shown:
            raise ValueError("a caller without a certificate")
        if shown[0] not in self._identities:
            if len(self._identities) > 4 * len(self.site.nodes):
                self._identities.clear()
            self._identities[shown[0]] = identity_of(shown[0])
        return self._identities[shown[0]]

    def site_now(self) -> Site:
        """The site as its file says now: who is revoked while a run goes on is out.

        A file that cannot be read is told of once. It is tried again some time later, however often anybody calls, and
        at once when it has changed.
        """
        path, stamp = self.folder / FILE, self._stamp()
        if stamp == self._read or (stamp == self._failed and time.monotonic() < self._again):
            return self.site
        try:
            self.site, self._read, self._failed = read_site(path), stamp, None
        except InputError as error:
            known, self._failed, self._again = stamp == self._failed, stamp, time.monotonic() + AGAIN
            if not known:
                self._tell(f"{path}: cannot be read anew ({one_line(str(error))}): what it said before holds")
        return self.site

    def _stamp(self) -> tuple[int, ...]:
        """By which it is seen that the file has changed; nothing where it cannot be looked at."""
        try:
            found = (self.folder / FILE).stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ino


def make_authority(folder: Path, site: str) -> None:
    """Write the key and certificate of a new authority, valid for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fedroam authority of {site}")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_secret(folder / AUTHORITY_KEY, pem(key))
    (folder / AUTHORITY).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def enrol(folder: Path, site: str, node: SiteNode, days: float) -> SiteNode:
    """Make a key and a certificate for a node, valid for so many days, and write them into its folder; the node with
    its new serial number."""
    key = ec.generate_private_key(ec.SECP256R1())
    node, certificate = certified(folder, site, node, key.public_key(), days)
    home = home_of(folder, node.name)
    write_secret(home / KEY, pem(key))
    write_certificate(home, certificate)
    return node


def revoke(folder: Path, name: str) -> None:
    """From now on a node's certificate is good for nothing, also at a server that runs. Raises InputError where the
    site has no such node."""
    with to_change(folder) as site:
        site.changed(site.named(name).model_copy(update={"revoked": True})).write(folder)


def renew(folder: Path, name: str, days: float = DAYS) -> None:
    """Give a node a new key and certificate; the old ones are good for nothing. Raises InputError where the site has
    no such node, or the authority's key is not here."""
    with to_change(folder) as site:
        site.changed(enrol(folder, site.name, site.named(name), days)).write(folder)


def home_of(folder: Path, name: str) -> Path:
    """The folder of a node below that of its site, made if need be, for its owner alone."""
    home = folder / NODES / name
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    return home


def certified(
    folder: Path, site: str, node: SiteNode, key: ec.EllipticCurvePublicKey, days: float
) -> tuple[SiteNode, bytes]:
    """A certificate (PEM) of the site's authority for a node's key, valid for so many days, and the node with its new
    serial number; nothing is written. Raises InputError where the authority's key is not here."""
    authority_key = _key(folder / AUTHORITY_KEY)
    try:
        authority = certificate_of(_read(folder / AUTHORITY))
    except ValueError as error:
        raise InputError(f"{folder / AUTHORITY}: is no certificate ({error})") from None
    serial = x509.random_serial_number()
    node = node.model_copy(update={"serial": f"{serial:x}", "revoked": False})
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.UniformResourceIdentifier(f"fedroam://{site}/{node.role}/{node.name}")
    ]
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if node.listens:  # a client's certificate must not do for a server
        names.append(x509.DNSName(node.host(site)))
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if node.role == "server":  # which calls nobody
        uses.remove(ExtendedKeyUsageOID.CLIENT_AUTH)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node.name)]))
        .issuer_name(authority.subject)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(now - SLACK)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return node, certificate.public_bytes(serialization.Encoding.PEM)


def write_certificate(home: Path, certificate: bytes) -> None:
    """Write a node's certificate into its folder."""
    write_aside(home / CERTIFICATE, lambda aside: aside.write_bytes(certificate))


def credentials(folder: Path, site: Site, name: str) -> Credentials:
    """What node `name` of a site shows and trusts. Raises InputError where a file is missing, or not this node's."""
    node, home = site.node(name), folder / NODES / name
    if node is None:
        known = ", ".join(each.name for each in site.nodes)
        raise InputError(f"{folder}: has no node {name!r}; there are {known}")
    certificate, authority = _read(home / CERTIFICATE), _read(folder / AUTHORITY)
    try:
        own = identity_of(certificate)
    except (ValueError, x509.ExtensionNotFound) as error:
        raise InputError(f"{home / CERTIFICATE}: is no certificate of a node ({error})") from None
    if (own.site, own.role, own.name) != (site.name, node.role, name):
        raise InputError(f"{home / CERTIFICATE}: is that of {own.role} {own.name!r} of site {own.site!r}")
    try:
        certificate_of(authority)
        authorities = x509.load_pem_x509_certificates(authority)
    except ValueError as error:
        raise InputError(f"{folder / AUTHORITY}: is no certificate ({error})") from None
    if not any(_signed(certificate, each) for each in authorities):
        raise InputError(
            f"{home / CERTIFICATE}: is not signed by {folder / AUTHORITY}: both must be of the same site"
        )
    path = key_of(home, certificate)
    if path is None:
        _read(home / KEY)
        raise InputError(f"{home / KEY}: is not the key of {CERTIFICATE} beside it")
    return Credentials(_read(path), certificate, authority)


def _signed(certificate: bytes, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate (PEM), whenever that is valid."""
    try:
        certificate_of(certificate).verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def validity(own: Credentials, name: str) -> str | None:
    """A line on a certificate that is not valid now, by the clock of this machine, or ends soon; None for any other.

    Whoever is called with one that is not valid hangs up before anything can be said, so that its own node must say it.
    """
    shown, now = identity_of(own.certificate), datetime.datetime.now(datetime.UTC)
    another = f"where the site is, fedroam site renew DIR {name} makes another"
    if now < shown.begins:
        clock = f"the clock here says {now:%Y-%m-%d %H:%M}"
        return f"its certificate is valid from {shown.begins:%Y-%m-%d %H:%M} UTC on, and {clock}"
    if now > shown.ends:
        return (
            f"its certificate ended at {shown.ends:%Y-%m-%d %H:%M} UTC, and nobody speaks with it: {another}"
        )
    if now > shown.ends - min(SOON, (shown.ends - shown.begins) / 10):
        return f"its certificate ends at {shown.ends:%Y-%m-%d %H:%M} UTC: {another}"
    return None


def key_of(home: Path, certificate: bytes) -> Path | None:
    """The file in a node's folder with the key of a certificate (PEM): the present one, or the one that was made when
    the certificate was asked for; None where it is neither. Raises InputError where one is no key."""
    wanted = certificate_of(certificate).public_key()
    for path in (home / KEY, home / NEXT_KEY):
        if path.is_file() and _key(path).public_key() == wanted:
            return path
    return None


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(_read(path), None)
    except TypeError:
        raise InputError(f"{path}: is a private key with a password; allowed is one without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(
            f"{path}: is no private key (wanted is PEM, whole, from -----BEGIN PRIVATE KEY----- on)"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path}: is a key of another kind; keys are on the curve P-256")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_secret(path: Path, text: bytes) -> None:
    """Write a file that nobody else may read, at no moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as handle:
        handle.write(text)
