"""Run a command as root of a Linux kernel of its own, which has netem and cgroups, as an ordinary user of this machine.

    apt install user-mode-linux kmod iproute2 iputils-ping          # Debian and Ubuntu
    python benchmarks/in_uml.py python -m pytest -q -p no:cacheprovider tests/deploy/emulation
    python benchmarks/in_uml.py --out found python benchmarks/emulated_links.py --record '$OUT/emulated-links.json'

The kernel is Debian's user-mode Linux: a process of this machine, without its privileges or KVM. Its files are those of
this machine, which it cannot change; it has a temporary folder in memory, one processor, and a network of its own that
leads nowhere. `$OUT` in the command is the folder given by `--out`, where it may write.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = "/run/out"  # there
KERNEL, MODULES = "linux.uml", Path("/usr/lib/uml/modules")
NEEDS = {KERNEL: "user-mode-linux", "modprobe": "kmod", "ip": "iproute2", "ping": "iputils-ping"}
PASSED = {"PYTHONPATH", "FEDROAM_DATA", "OMP_NUM_THREADS"}  # of the caller's environment, beside PATH
SBIN = ":/usr/sbin:/sbin"
INIT = f"""\
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs tmp /run; mkdir -p /run/lock /run/tmp {OUT} /run/lib/modules
mount -t tmpfs -o size=3G tmp /run/tmp; mount -t tmpfs shm /dev/shm; mount -t hostfs none {OUT} -o "$OUT_THERE"
{{variables}}
export PATH={{path}} TMPDIR=/run/tmp HOME=/run/tmp PYTHONDONTWRITEBYTECODE=1
ln -s {MODULES}/$(uname -r) /run/lib/modules/
modprobe -d /run -a veth bridge sch_htb sch_netem cls_u32
ip link set lo up
cd {{here}}
{{command}} > {OUT}/output 2>&1; echo $? > {OUT}/exit-code
poweroff -f
"""


def run(words: list[str], out: Path, memory: str) -> int:
    """The exit code of a command there; what it says goes to `output` in the folder."""
    search = os.environ["PATH"] + SBIN
    lacks = [package for program, package in NEEDS.items() if shutil.which(program, path=search) is None]
    if lacks:
        print(f"not on this machine: apt install {' '.join(lacks)}", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    code = out / "exit-code"
    code.unlink(missing_ok=True)
    command = shlex.join(word.replace("$OUT", OUT) for word in words)
    with tempfile.TemporaryDirectory() as home:
        init = Path(home) / "init"
        text = INIT.format(
            variables="\n".join(
                f"export {name}={shlex.quote(os.environ[name])}" for name in PASSED & os.environ.keys()
            ),
            path=shlex.quote(search),
            here=shlex.quote(str(Path.cwd())),
            command=command,
        )
        init.write_text(text, encoding="utf-8")
        init.chmod(0o755)
        boot = ["root=none", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", f"mem={memory}"]
        boot += [f"OUT_THERE={out.resolve()}", "con=null", "con0=null,fd:1", f"uml_dir={home}/"]
        # What it does is also on the console, should it not get as far as the command.
        with (out / "console").open("wb") as console:
            subprocess.run(
                [KERNEL, *boot], stdin=subprocess.DEVNULL, stdout=console, stderr=console, check=False
            )
    if not code.exists():
        print(f"the kernel ended without an answer: {out / 'console'}", file=sys.stderr)
        return 1
    print((out / "output").read_text(encoding="utf-8", errors="replace"), end="")
    return int(code.read_text())


def main() -> int:
    """Run the command; its exit code, 2 where something is missing here."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument(
        "--out", type=Path, help="folder that the command may write to; by default it is thrown away"
    )
    reader.add_argument("--memory", default="4G")
    reader.add_argument("command", nargs=argparse.REMAINDER)
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return run(given.command, given.out or Path(scratch), given.memory)


if __name__ == "__main__":
    sys.exit(main())
