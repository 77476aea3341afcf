"""UNSW-NB15 flow records: network intrusion detection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import model_validator

from fedroam.components import Part, field, register
from fedroam.data.cache import remember
from fedroam.data.dataset import Dataset
from fedroam.data.preparing import column_statistics, held_out, limit
from fedroam.data.preprocessing import CategoricalColumn, NumericColumn, TablePreprocessing
from fedroam.data.sources.places import find
from fedroam.data.sources.tables import as_classes, line_of, read_header, read_table
from fedroam.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# A file is told by its number of rows: redistributions swap the two names.
ROWS = {"training": 175_341, "testing": 82_332}

# fmt: off
# The 39 numeric features, in the order of the files.
NUMBERS = (
    "dur", "spkts", "dpkts", "sbytes", "dbytes", "rate", "sttl", "dttl", "sload", "dload", "sloss",
    "dloss", "sinpkt", "dinpkt", "sjit", "djit", "swin", "stcpb", "dtcpb", "dwin", "tcprtt", "synack",
    "ackdat", "smean", "dmean", "trans_depth", "response_body_len", "ct_srv_src", "ct_state_ttl",
    "ct_dst_ltm", "ct_src_dport_ltm", "ct_dst_sport_ltm", "ct_dst_src_ltm", "is_ftp_login",
    "ct_ftp_cmd", "ct_flw_http_mthd", "ct_src_ltm", "ct_srv_dst", "is_sm_ips_ports",
)

# The values of both partitions together, so that either partition gives the same 196 inputs. (icmp and rtp,
# and the states ECO, PAR, URN and no, occur in the training partition only; ACC and CLO in the other only.)
WORDS = {
    "proto": (
        "3pc", "a/n", "aes-sp3-d", "any", "argus", "aris", "arp", "ax.25", "bbn-rcc", "bna",
        "br-sat-mon", "cbt", "cftp", "chaos", "compaq-peer", "cphb", "cpnx", "crtp", "crudp", "dcn",
        "ddp", "ddx", "dgp", "egp", "eigrp", "emcon", "encap", "etherip", "fc", "fire", "ggp", "gmtp",
        "gre", "hmp", "i-nlsp", "iatp", "ib", "icmp", "idpr", "idpr-cmtp", "idrp", "ifmp", "igmp",
        "igp", "il", "ip", "ipcomp", "ipcv", "ipip", "iplt", "ipnip", "ippc", "ipv6", "ipv6-frag",
        "ipv6-no", "ipv6-opts", "ipv6-route", "ipx-n-ip", "irtp", "isis", "iso-ip", "iso-tp4",
        "kryptolan", "l2tp", "larp", "leaf-1", "leaf-2", "merit-inp", "mfe-nsp", "mhrp", "micp",
        "mobile", "mtp", "mux", "narp", "netblt", "nsfnet-igp", "nvp", "ospf", "pgm", "pim", "pipe",
        "pnni", "pri-enc", "prm", "ptp", "pup", "pvp", "qnx", "rdp", "rsvp", "rtp", "rvd", "sat-expak",
        "sat-mon", "sccopmce", "scps", "sctp", "sdrp", "secure-vmtp", "sep", "skip", "sm", "smp", "snp",
        "sprite-rpc", "sps", "srp", "st2", "stp", "sun-nd", "swipe", "tcf", "tcp", "tlsp", "tp++",
        "trunk-1", "trunk-2", "ttp", "udp", "unas", "uti", "vines", "visa", "vmtp", "vrrp", "wb-expak",
        "wb-mon", "wsn", "xnet", "xns-idp", "xtp", "zero",
    ),
    "service": (
        "-", "dhcp", "dns", "ftp", "ftp-data", "http", "irc", "pop3", "radius", "smtp", "snmp", "ssh",
        "ssl",
    ),
    "state": (
        "ACC", "CLO", "CON", "ECO", "FIN", "INT", "PAR", "REQ", "RST", "URN", "no",
    ),
}

# Most frequent first, as the publisher's table lists them.
ATTACKS = (
    "Normal", "Generic", "Exploits", "Fuzzers", "DoS", "Reconnaissance", "Analysis", "Backdoor",
    "Shellcode", "Worms",
)
# fmt: on


def row_keys(records: pd.DataFrame) -> np.ndarray:
    """A 64-bit hash of each row, uint64 [rows]."""
    import pandas as pd

    return pd.util.hash_pandas_object(records, index=False, categorize=True).to_numpy()


def read_partition(path: Path) -> pd.DataFrame:
    """One partition: columns `NUMBERS` (float64), `WORDS` and attack_cat (text) and label (0 or 1, int64).

    Raises InputError for what is wrong with the file, with line and column.
    """
    import pandas as pd

    table = read_table(path, (*NUMBERS, "label"), (*WORDS, "attack_cat"))
    for value in np.unique(table["attack_cat"]):
        if value not in ATTACKS:
            line = line_of(path, "attack_cat", str(value))
            raise InputError(
                f"{path}, line {line}, column 'attack_cat': {str(value)!r}, allowed are {', '.join(ATTACKS)}"
            )
    label = table["label"].astype(np.int64)
    if not np.isin(table["label"], (0, 1)).all():
        raise InputError(f"{path}, column 'label': found {label.max()}, allowed are 0 and 1")
    return pd.DataFrame({name: table[name] for name in (*NUMBERS, *WORDS, "attack_cat")} | {"label": label})


@register("data", "unsw_nb15", source="Moustafa, Slay, MilCIS 2015, doi:10.1109/MilCIS.2015.7348942")
class UnswNb15(Part):
    """UNSW-NB15: records of network flows with 42 features, normal or one of nine kinds of attack.

    39 numeric features, standardised by the training records' mean and deviation, then proto, service and
    state as one-hot columns: 196 inputs, whichever partition is there. Which partition a CSV file (packed
    with gzip or not) holds is decided by its number of rows, not by its name. Rows are ordered training
    partition first; the `id` column is not used. proto, service, state and attack_cat are kept as columns
    for natural partitions.
    """

    root: str | None = field(
        None, "folder to look in first, before FEDROAM_DATA and the cache of downloads", identity=False
    )
    records: Literal["found", "training", "testing", "both"] = field(
        "found",
        "which of the published partitions: those found, the one of 175,341 records, the one of 82,332, or both",
    )
    label: Literal["attack_cat", "label"] = field(
        "attack_cat", "classes: attack_cat (Normal and nine kinds of attack) or label (normal, attack)"
    )
    test: Literal["share", "none", "publisher"] = field(
        "share",
        "shared test set: a fixed test_share of each class, none (clients are then judged on their own "
        "held-out share, as in MoCFL), or the publisher's testing partition",
    )
    test_share: float = field(
        0.2, "share of the distinct records of each class in the shared test set", gt=0, lt=1
    )
    deduplicate: bool = field(
        False, "drop records that repeat an earlier one in all features and labels (in training and test)"
    )
    train_samples: int | None = field(
        None, "keep this many training records, classes in proportion", unit="records", ge=1
    )
    test_samples: int | None = field(
        None, "keep this many test records, classes in proportion", unit="records", ge=1
    )

    @model_validator(mode="after")
    def _whole(self) -> UnswNb15:
        if self.test == "publisher" and self.records in ("training", "testing"):
            raise ValueError(
                f'test = "publisher" needs both partitions, but records = "{self.records}": '
                'allowed are "found" and "both"'
            )
        return self

    def files(self) -> dict[str, Path]:
        """The file of each partition found, by its name in `ROWS`."""
        return find(
            "unsw_nb15",
            self.root,
            _look,
            "UNSW_NB15_training-set.csv or UNSW_NB15_testing-set.csv (.gz)",
            aliases=("UNSW_NB15", "UNSW-NB15"),
            by_hand=BY_HAND,
        )

    def load(self) -> Dataset:
        """The data set, read once per process. Raises InputError if missing or damaged.

        With `test = "share"` records equal in all features never fall on both sides.
        """
        files = self.files()
        return remember(self, tuple(files.values()), lambda: self._read(files))

    def _read(self, files: dict[str, Path]) -> Dataset:
        import pandas as pd

        wanted = {"found": tuple(files), "both": tuple(ROWS)}.get(self.records, (self.records,))
        wanted = tuple(ROWS) if self.test == "publisher" else wanted
        for which in wanted:
            if which not in files:
                there = ", ".join(f"{path} is the {k} partition" for k, path in files.items())
                raise InputError(
                    f"data unsw_nb15: the {which} partition ({ROWS[which]:,} records) is wanted, but only {there}"
                )
        used = [which for which in ROWS if which in wanted]
        parts = [read_partition(files[which]) for which in used]
        everything = pd.concat(parts, ignore_index=True)
        is_test = np.zeros(len(everything), dtype=bool)
        if self.test == "publisher":
            is_test[len(parts[0]) :] = True
        notes = [f"{len(is_test):,} records: {' and '.join(used)} partition"]
        if self.deduplicate:
            first = np.sort(np.unique(row_keys(everything), return_index=True)[1])
            notes.append(f"{len(is_test) - len(first):,} repeated records dropped, {len(first):,} left")
            everything, is_test = everything.iloc[first], is_test[first]
        names = ATTACKS if self.label == "attack_cat" else ("normal", "attack")
        y = everything[self.label].to_numpy()
        y = as_classes(y, ATTACKS) if self.label == "attack_cat" else y
        if self.test == "share":
            # Whole groups of equal records, so that the test set repeats nothing of the training set.
            keys = row_keys(everything[[*NUMBERS, *WORDS]])
            _, first, group = np.unique(keys, return_index=True, return_inverse=True)
            is_test = held_out(y[first], self.test_share, "unsw_nb15 test set")[group]
        return self._scaled(everything, y, is_test, names, notes)

    def _scaled(
        self,
        records: pd.DataFrame,
        y: np.ndarray,
        is_test: np.ndarray,
        names: tuple[str, ...],
        notes: list[str],
    ) -> Dataset:
        numbers = np.stack([records[name] for name in NUMBERS], axis=1)
        columns = {name: records[name].to_numpy(object) for name in (*WORDS, "attack_cat")}
        mean, deviation = column_statistics(numbers[~is_test])
        vocabularies = {}
        for name, known in WORDS.items():
            further = sorted({str(v) for v in np.unique(columns[name])} - set(known))
            vocabularies[name] = (*known, *further)
            if further:
                notes.append(f"{name} has values beyond the published ones: {', '.join(further)}")

        preprocessing = TablePreprocessing(
            numeric=[
                NumericColumn(name=name, mean=float(m), scale=float(d))
                for name, m, d in zip(NUMBERS, mean, deviation, strict=True)
            ],
            categorical=[
                CategoricalColumn(name=name, values=list(words)) for name, words in vocabularies.items()
            ],
            label=self.label,
        )

        def prepared(rows: np.ndarray) -> np.ndarray:
            known = dict(zip(NUMBERS, numbers[rows].T, strict=True))
            return preprocessing.apply(known | {name: columns[name][rows] for name in WORDS})

        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
        train = train[limit(y[train], self.train_samples, "data.train_samples", "unsw_nb15 training subset")]
        test = test[limit(y[test], self.test_samples, "data.test_samples", "unsw_nb15 test subset")]
        return Dataset(
            self.kind,
            prepared(train),
            y[train],
            prepared(test),
            y[test],
            names,
            columns={name: values[train] for name, values in columns.items()},
            notes=tuple(notes),
            preprocessing=preprocessing,
        )


BY_HAND = (
    "get it by hand: it has no stable direct link, its publisher's page is "
    "https://research.unsw.edu.au/projects/unsw-nb15-dataset"
)


def _look(folder: Path, remarks: list[str]) -> dict[str, Path] | None:
    """The partitions in a folder: CSV files with the right columns and one of the two numbers of rows."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        if "unsw" not in name or not name.endswith((".csv", ".csv.gz")) or not path.is_file():
            continue
        try:
            header = read_header(path)
        except InputError as error:  # the list of features is in another encoding; the records never are
            remarks.append(str(error))
            continue
        if not {"proto", "attack_cat", "label"} <= set(header):
            continue
        rows = len(read_table(path, ("label",), ())["label"])
        which = next((k for k, count in ROWS.items() if count == rows), None)
        if which is None:
            raise InputError(
                f"{path}: {rows:,} rows, wanted are {ROWS['testing']:,} (testing partition) or "
                f"{ROWS['training']:,} (training partition)"
            )
        found.setdefault(which, path)
    return found or None
