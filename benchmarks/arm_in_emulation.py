"""Run a command on an ARM processor that QEMU plays on this machine: kernels for NEON compute, and are held to float64.

    apt install qemu-user-static mmdebstrap                        # Debian 12, as root; on x86
    python benchmarks/arm_in_emulation.py --root /var/tmp/arm      # some tests of each kernel
    python benchmarks/arm_in_emulation.py --root /var/tmp/arm --processor neoverse-n1 \\
        python3 -m pytest -q -p no:cacheprovider -k sums tests/learning
    python benchmarks/arm_in_emulation.py --root /var/tmp/arm --out found python3 -m fedroam run quickstart --out '$OUT'
    python benchmarks/arm_in_emulation.py --root /var/tmp/arm --record # the tests, and a small run there and here

Any Python 3.11 or newer that has pip will do here. The first call makes the folder `--root`, 2 GB: Debian 12 for ARM
from a mirror of Debian's, and fedroam's dependencies for it from a package index, in the versions of `locks/core.txt`
and `constraints.txt`, but for torch: since 2.11 that of PyPI for ARM needs CUDA, and 2.10 ends on a Raspberry Pi 4 with
"Illegal instruction", so it is 2.9.1. The command is run in this checkout, which it cannot change; `$OUT` in it is the
folder given by `--out`. To make the system takes a minute of processor time, without a command the tests some half an
hour, most of it to compile kernels: of each test the first case and the last, with few examples.

QEMU gives a processor its instructions, and ends a program that uses others. The name and features by which kernels are
written are in a /proc/cpuinfo as Linux shows it there: QEMU would show that of this machine. Times say nothing.

The record holds, for each processor, how many tests passed by folder, and of a run with one worker, with two, and on
this machine a sum over the models' bits and the accuracy at the end; so fedroam is to be installed here, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parents[1]
RECORD = HERE / "docs" / "records" / "arm.json"
OUT, CHECKOUT, PLUGIN = "/out", "/fedroam", "/plugin"  # there
NEEDS = {"mmdebstrap": "mmdebstrap", "qemu-aarch64-static": "qemu-user-static"}
BINFMT = Path("/proc/sys/fs/binfmt_misc")
PACKAGES = "python3,libgomp1,libstdc++6,dash,coreutils,libc-bin,procps"
TORCH = "torch==2.9.1"
# The second line is what those of the first need.
TESTING = ["pytest", "pytest-xdist", "pytest-timeout", "hypothesis"]
TESTING += ["iniconfig", "pluggy", "execnet", "attrs", "sortedcontainers"]
WHEELS = [f"manylinux{which}_aarch64" for which in ("_2_28", "_2_27", "_2_26", "_2_17", "2014")]
# Implementer, part, and features, as Linux names them; "max" is what QEMU knows, of a maker that nobody knows.
OF_2016 = "fp asimd evtstrm crc32 cpuid"
OF_2018 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
LATER = "jscvt fcma sha3 sm3 sm4 sha512 sve asimdfhm sve2 sveaes svebf16 bf16 rng"
PROCESSORS = {
    "cortex-a53": ("0x41", "0xd03", OF_2016),  # Raspberry Pi 3 and Zero 2
    "cortex-a72": ("0x41", "0xd08", OF_2016),  # Raspberry Pi 4
    "cortex-a76": ("0x41", "0xd0b", OF_2018),  # Raspberry Pi 5
    "neoverse-n1": ("0x41", "0xd0c", f"{OF_2018} ssbs"),
    "a64fx": ("0x46", "0x001", f"{OF_2016} sha1 sha2 atomics fphp asimdhp asimdrdm fcma dcpop sve"),
    "max": ("0x00", "0x051", f"{OF_2018} {LATER}"),
}
TESTS = (  # but for those that look at code, of which nothing runs
    "--ignore tests/learning/cpu/test_other_processors.py tests/native tests/learning/cpu tests/learning/test_sums.py "
    "tests/mobility/steered/test_greedy_cover.py tests/clock tests/links"
)
DEFAULT = shlex.split(f"python3 -m pytest -p no:cacheprovider -p {Path(__file__).stem} -rfE {TESTS}")
EXAMPLES = 2  # of each test that draws them
REPORT = "tests.xml"
# What is run there and here: training by kernels, on clients that move.
SMALL = """\
import sys, fedroam
moving, engine = {"kind": "random", "mobile": 3, "grid": 18}, {"kind": "cpu", "workers": int(sys.argv[2])}
made = fedroam.Experiment(name="small", clients=8, rounds=12, evaluate_every=12, mobility=moving, engine=engine)
fedroam.run(made, sys.argv[1])
"""
# In a mount namespace of its own, which ends with it.
RUN = f"""\
set -e
cd "$ROOT"
mkdir -p proc sys dev tmp root run .{CHECKOUT} .{OUT}
mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev; mount -t tmpfs tmp tmp
# Alone: a module beside it may have the name of a package of tests.
mkdir -p .{PLUGIN}; mount -t tmpfs plugin .{PLUGIN}; cp "$SELF" .{PLUGIN}
mount --bind "$CPUINFO" proc/cpuinfo
mount --bind "$HERE" .{CHECKOUT}; mount -o remount,ro,bind .{CHECKOUT}; mount --bind "$OUT_HERE" .{OUT}
exec chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 QEMU_CPU="$PROCESSOR" \\
  OMP_NUM_THREADS=1 PYTHONPATH={CHECKOUT}/src:{PLUGIN} PYTHONDONTWRITEBYTECODE=1 \\
  sh -c 'cd {CHECKOUT}; exec "$@"' sh "$@"
"""


def pytest_configure() -> None:
    """As a plugin of pytest (`-p arm_in_emulation`): few examples, since most of them are kernels to be compiled."""
    from hypothesis import settings

    settings.register_profile("few", settings.get_profile("fedroam"), max_examples=EXAMPLES)
    settings.load_profile("few")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """As a plugin of pytest: of each test its first case and its last, of those for vectors as ARM has them."""
    from hypothesis import settings

    cases: dict[tuple[Path, str], list[Any]] = {}
    for item in items:
        # Some have a number of examples of their own, which no profile changes, nor any public name.
        own = getattr(item.obj, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > EXAMPLES:
            item.obj._hypothesis_internal_use_settings = settings(own, max_examples=EXAMPLES)
        lanes = item.callspec.params.get("lanes") if hasattr(item, "callspec") else None
        if str(lanes) not in ("8", "16") and item.get_closest_marker("slow") is None:
            cases.setdefault((item.path, item.originalname), []).append(item)
    kept = {case for some in cases.values() for case in (some[0], some[-1])}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def missing() -> str:
    """What this machine lacks; "" if nothing."""
    search = os.environ["PATH"] + ":/usr/sbin:/sbin"
    packages = [package for program, package in NEEDS.items() if shutil.which(program, path=search) is None]
    if packages:
        return f"not on this machine: apt install {' '.join(packages)}"
    if os.geteuid() != 0:
        return "not root: it makes a file system, and changes into it"
    if not (BINFMT / "qemu-aarch64").exists():
        return (
            "this machine's kernel does not start programs for ARM with QEMU; where no systemd has seen to it:\n"
            f"mount -t binfmt_misc binfmt_misc {BINFMT}\n"
            f"cat /usr/lib/binfmt.d/qemu-aarch64.conf > {BINFMT}/register"
        )
    return ""


def make(root: Path, mirror: str) -> None:
    """Debian for ARM, with fedroam's dependencies: unpacked only, since to set packages up takes minutes there."""
    subprocess.run(
        [
            "mmdebstrap",
            "--arch=arm64",
            "--variant=extract",
            f"--include={PACKAGES}",
            "bookworm",
            root,
            mirror,
        ],
        check=True,
    )
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    packages = root / "usr/local/lib/python3.11/dist-packages"
    # No pip runs there: the one here takes wheels as they are, all of which are named.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    pip += ["--python-version=3.11", f"--target={packages}", *(f"--platform={wheel}" for wheel in WHEELS)]
    variables = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    for words in (
        ["--require-hashes", "-r", "locks/core.txt"],
        [TORCH],
        ["-c", "constraints.txt", *TESTING],
    ):
        subprocess.run([*pip, *words], check=True, cwd=HERE, env=variables)
    (root / "made").touch()


def run(words: list[str], root: Path, processor: str, out: Path) -> int:
    """The exit code of a command there."""
    implementer, part, features = PROCESSORS[processor]
    core = (
        f"processor\t: {{}}\nBogoMIPS\t: 50.00\nFeatures\t: {features}\nCPU implementer\t: {implementer}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 3\n\n"
    )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", prefix="cpuinfo-") as told:
        told.write("".join(core.format(number) for number in range(os.cpu_count() or 1)))
        told.flush()
        variables = {
            "ROOT": str(root),
            "HERE": str(HERE),
            "SELF": str(Path(__file__).resolve()),
            "OUT_HERE": str(out.resolve()),
        }
        variables = {**os.environ, **variables, "CPUINFO": told.name, "PROCESSOR": processor}
        command = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            RUN,
            "sh",
            *(word.replace("$OUT", OUT) for word in words),
        ]
        return subprocess.run(command, env=variables, check=False).returncode


def tested(report: Path) -> dict[str, Any]:
    """What pytest's report in XML says: tests by how they ended, and those that passed by folder below `tests`."""
    ended, folders = Counter[str](), Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        how = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        ended[how] += 1
        if how == "passed":
            folders["/".join(case.attrib["classname"].split(".")[1:-1])] += 1
    return {"ended": dict(sorted(ended.items())), "passed": dict(sorted(folders.items()))}


def outcome(folder: Path) -> dict[str, Any]:
    """What a run came to: a sum over its models' bits, and the mean accuracy at its end, in percent."""
    import fedroam

    models = hashlib.sha256((folder / "models.safetensors").read_bytes()).hexdigest()
    return {"models": models, "accuracy": 100 * float(fedroam.Run(folder).rounds["accuracy"].iloc[-1])}


def recorded(root: Path, processor: str) -> dict[str, Any]:
    """The tests, and a small run with one worker and with two, on such a processor; and the run on this machine."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        run([*DEFAULT, "--junitxml", f"$OUT/{REPORT}"], root, processor, out)
        found = tested(out / REPORT)
        for workers in ("1", "2"):
            where = [f"$OUT/workers-{workers}", workers]
            if run(["python3", "-c", SMALL, *where], root, processor, out):
                raise SystemExit(f"the run with {workers} workers failed on {processor}")
        subprocess.run([sys.executable, "-c", SMALL, out / "here", "1"], check=True)
        version = subprocess.run(
            ["qemu-aarch64-static", "--version"], check=True, capture_output=True, text=True
        )
        return {
            **found,
            "runs": {each: outcome(out / each) for each in ("workers-1", "workers-2", "here")},
            "qemu": version.stdout.split()[2],
            "torch": TORCH.partition("==")[2],
            "measured": date.today().isoformat(),
        }


def sentence(record: dict[str, Any]) -> str:
    """What the page on performance says of it. Raises ValueError where something failed, or bits differ."""
    names = ", ".join(record)
    cases = sorted(sum(found["ended"].values()) for found in record.values())
    for processor, found in record.items():
        one, two = (found["runs"][f"workers-{workers}"]["models"] for workers in (1, 2))
        if set(found["ended"]) - {"passed", "skipped"} or one != two:
            raise ValueError(f"{processor}: {found}")
    apart = [
        abs(found["runs"]["here"]["accuracy"] - found["runs"]["workers-1"]["accuracy"])
        for found in record.values()
    ]
    many = f"{cases[0]}" if cases[0] == cases[-1] else f"{cases[0]} to {cases[-1]}"
    return (
        f"on processors that QEMU plays ({names}): of {many} tests of every family of kernels none failed there, and a "
        "small run had the same bits with one worker and with two, and a mean accuracy at its end that was "
        f"{max(apart):.1f} points from that on x86 or less"
    )


def main() -> int:
    """Run the command; its exit code, 2 where something is missing here."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument(
        "--root", type=Path, required=True, help="folder of the system for ARM; made if it is not there"
    )
    reader.add_argument("--processor", choices=PROCESSORS, default="cortex-a72")
    reader.add_argument("--mirror", default="http://deb.debian.org/debian")
    reader.add_argument(
        "--out", type=Path, help="folder that the command may write to; by default it is thrown away"
    )
    reader.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=RECORD,
        help="keep what tests and a small run came to, by processor",
    )
    reader.add_argument("command", nargs=argparse.REMAINDER, help=f"by default: {shlex.join(DEFAULT)}")
    given = reader.parse_args()
    if given.record is not None and given.command:
        reader.error("--record: its commands are its own; give none")
    root = given.root.resolve()
    lacks = missing()
    if not lacks and root.exists() and not (root / "made").exists():
        lacks = f"{given.root}: not a system that was made whole; delete it, or name another folder"
    if lacks:
        print(lacks, file=sys.stderr)
        return 2
    if not root.exists():
        make(root, given.mirror)
    if given.record is not None:
        kept = json.loads(given.record.read_text(encoding="utf-8")) if given.record.exists() else {}
        kept[given.processor] = recorded(root, given.processor)
        given.record.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(kept[given.processor], indent=1))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        return run(given.command or DEFAULT, root, given.processor, given.out or Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
