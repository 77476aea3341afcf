"""A program in the place of Python. It hands its arguments, environment, folder and streams to the server, which forks
a process for them; passes signals on to that; and ends as it ends."""

import array
import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def begin(arguments: list[str]) -> None:
    """Be a Python with these arguments."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(os.environ["FEDROAM_WARM"] + "/socket")
    told = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()  # noqa: PTH109 (pathlib is long to load)
    streams = array.array("i", [0, 1, 2])
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    server.sendmsg([len(told).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    server.sendall(told)
    heard = server.makefile()
    process = int(heard.readline())
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(process, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = int(heard.readline())
    if code < 0:  # ended by a signal
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    begin(sys.argv[1:])
