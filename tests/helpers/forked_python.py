"""The program of `forked.python`, which asks the parent Python for a ``meta-eval`` or a worker of pytest and represents it.

It passes on its arguments, file descriptors, folder, environment and every signal. It ends with the same status.
"""

import json
import os
import signal
import socket
import sys


def main() -> int:
    if sys.argv[1:3] == ["testing", "-u"]:
        imports, words = "testing", sys.argv[3:]
    else:
        assert sys.argv[1:4] == ["-P", "-m", "meta_eval"], "nothing else is forked"
        imports, words = "all", sys.argv[2:]
    reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ask = {"words": words, "cwd": os.getcwd(), "environment": dict(os.environ), "most_bytes": None, "imports": imports}  # noqa: PTH109
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as parent:
        parent.connect(os.environ["META_EVAL_FORKED_BY"])
        socket.send_fds(parent, [json.dumps(ask).encode()], [0, 1, 2, theirs.fileno()])
    theirs.close()
    pid = int(reply.recv(16))
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signal_number, lambda number, _: os.kill(pid, number))
    code = int(reply.recv(16))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
