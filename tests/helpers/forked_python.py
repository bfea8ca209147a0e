"""The program of `forked.python`, which asks the parent Python for a ``meta-eval`` and represents it.

It passes on its arguments, file descriptors, folder, environment and every signal. It ends with the same status.
"""

import json
import os
import signal
import socket
import sys


def main() -> int:
    assert sys.argv[1:4] == ["-P", "-m", "meta_eval"], "nothing else is forked"
    words = sys.argv[2:]
    reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ask = {"words": words, "cwd": os.getcwd(), "environment": dict(os.environ), "most_bytes": None}  # noqa: PTH109
    files = [0, 1, 2, theirs.fileno()]
    socket.send_fds(socket.socket(fileno=int(os.environ["FORKED_BY"])), [json.dumps(ask).encode()], files)
    theirs.close()
    pid = int(reply.recv(16))
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signal_number, lambda number, _: os.kill(pid, number))
    code = int(reply.recv(16))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
