"""Files by which a system starts nodes and the server, and keeps them going: systemd units, a container, and what a
device installs."""

from __future__ import annotations

from pathlib import Path

from fedroam.deploy.site.file import FILE, read_site
from fedroam.writing import write_text

FOLDER = "units"
# What a client, peer or access point imports of what fedroam depends on; figures, statistics and compiled kernels are
# for the machine that looks at runs. tests/deploy/test_boards.py holds it.
DEVICE = (
    "torch", "numpy", "scipy", "pandas", "pyarrow", "pydantic", "safetensors", "typer", "rich", "pillow", "pooch",
    "platformdirs", "tomli-w", "typing_extensions", "grpcio", "cryptography", "prometheus-client", "zeroconf",
)  # fmt: skip
HARD = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
LimitNOFILE=65536
"""
OWN = """\
# Relative paths of the experiment (data, a trace) start beside site.toml; FEDROAM_DATA, and PYTHONPATH for a module of
# your own, are set in the file environment there.
WorkingDirectory=/etc/fedroam
EnvironmentFile=-/etc/fedroam/environment
"""
NODE = f"""\
# A client, peer or access point: systemctl enable --now fedroam-node@client-00
# Of several on one board each has a port of its own: systemctl edit fedroam-node@access-point-01, and there
#   [Service]
#   Environment=METRICS=9102
[Unit]
Description=fedroam node %i
Wants=network-online.target
After=network-online.target time-sync.target
StartLimitIntervalSec=0

[Service]
User=fedroam
Environment=OMP_NUM_THREADS=4 METRICS=9100
{OWN}ExecStart=/opt/fedroam/current/bin/fedroam node --site /etc/fedroam/site.toml --name %i \\
    --meters /var/lib/fedroam/meters --metrics ${{METRICS}} --quiet
# Done: exit code 0. What is wrong in its files (2) does not become right by itself.
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=5
StateDirectory=fedroam
# What it must remember lies beside its key.
ReadWritePaths=/etc/fedroam/nodes/%i
{HARD}
[Install]
WantedBy=multi-user.target
"""
SERVER = f"""\
# The server: systemctl enable --now fedroam-server
[Unit]
Description=fedroam server
Wants=network-online.target
After=network-online.target time-sync.target
StartLimitIntervalSec=0

[Service]
User=fedroam
{OWN}ExecStart=/opt/fedroam/current/bin/fedroam deploy --site /etc/fedroam/site.toml \\
    --out /var/lib/fedroam/run --metrics 9101 --resume --quiet
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=5
# Ctrl-C: it ends after the round, with a checkpoint.
KillSignal=SIGINT
TimeoutStopSec=600
StateDirectory=fedroam
{HARD}
[Install]
WantedBy=multi-user.target
"""
CONTAINER = """\
# A node in a container. Beside this file: the wheel of fedroam, device-requirements.txt, and constraints.txt of the
# clone, without which newer versions come, which may compute other last digits than the server's.
#   podman build -t fedroam-node .
# The data that the experiment names, into /var/lib/fedroam of the board, once:
#   podman run --rm --network host -v /var/lib/fedroam:/var/lib/fedroam --entrypoint fedroam fedroam-node \\
#       data fetch mnist
# The key, where nodes make their own: the ticket of fedroam site enrol comes to /etc/fedroam/nodes/client-00, and the
# request that this makes of it goes back, for fedroam site sign and then fedroam site push:
#   podman run --rm -v /etc/fedroam:/etc/fedroam --entrypoint fedroam fedroam-node site request /etc/fedroam client-00
# And the node:
#   podman run -d --name client-00 --restart on-failure --network host -v /etc/fedroam:/etc/fedroam \\
#       -v /var/lib/fedroam:/var/lib/fedroam fedroam-node client-00
FROM docker.io/library/python:3.11-slim-bookworm
WORKDIR /opt/fedroam
COPY device-requirements.txt constraints.txt fedroam-*.whl ./
RUN pip install --no-cache-dir -c constraints.txt -r device-requirements.txt \\
 && pip install --no-cache-dir --no-deps fedroam-*.whl && rm fedroam-*.whl
ENV OMP_NUM_THREADS=4 XDG_CACHE_HOME=/var/lib/fedroam/.cache
ENTRYPOINT ["fedroam", "node", "--site", "/etc/fedroam/site.toml", "--quiet", "--name"]
"""


def write_units(folder: Path) -> list[Path]:
    """Write the files into `units/` of a site's folder, in the place of older ones; their paths."""
    read_site(folder / FILE)
    home = folder / FOLDER
    home.mkdir(exist_ok=True)
    texts = {
        "fedroam-node@.service": NODE,
        "fedroam-server.service": SERVER,
        "Containerfile": CONTAINER,
        "device-requirements.txt": "".join(f"{name}\n" for name in DEVICE),
    }
    for name, text in texts.items():
        write_text(home / name, text)
    return [home / name for name in texts]
