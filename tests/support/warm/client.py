"""A program in the place of Python. It hands its arguments, environment, folder and streams to the server, which forks
a process for them; passes signals on to that; and ends as it ends. What takes long to load is not loaded here."""

import array
import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM)
FOLDER = "FEDROAM_WARM"  # the environment variable that names the folder of this session's server


def begin_server() -> None:
    """Start the server, if nobody has."""
    import fcntl
    import subprocess

    folder = os.environ[FOLDER]
    with open(folder + "/lock", "w") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder + "/socket"):  # noqa: PTH110
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(folder + "/socket")
                listening.listen(64)
                life = os.open(folder + "/life", os.O_RDONLY | os.O_NONBLOCK)
                # It may be asked at once, while it is still loading.
                program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server.py")  # noqa: PTH100, PTH118, PTH120
                subprocess.Popen([sys.executable, program, str(life)], stdin=listening, pass_fds=[life])
                os.close(life)


def begin(arguments: list[str], handles: tuple[int, ...] = ()) -> None:
    """Be a Python with these arguments, which has these handles besides its streams."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(os.environ[FOLDER] + "/socket")
    told = json.dumps([arguments, dict(os.environ), os.getcwd(), handles]).encode()  # noqa: PTH109
    streams = array.array("i", [0, 1, 2, *handles])
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    server.sendmsg([len(told).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    server.sendall(told)
    heard = server.makefile()
    process = int(heard.readline())
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(process, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = int(heard.readline() or -signal.SIGKILL)  # where the session ends first, the server has killed it
    if code < 0:  # ended by a signal
        if -code != signal.SIGKILL:  # which cannot be caught
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    begin(sys.argv[1:])
