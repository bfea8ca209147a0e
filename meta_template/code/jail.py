"""Runs programs that a model wrote, each in processes of its own that can do as little as possible.

This file run as a script is the supervisor: started by `runner`, fed one JSON request a line, it forks processes for
each program, watches them, kills them and tells what became of them. The supervisor runs nothing of a program and is
never restricted; a forked process restricts itself before it runs the first line. What exactly holds where stands in
`runner`, and how a program and its tests are kept apart in `apart`.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import gc
import json
import os
import random
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import apart  # beside this file, whose folder -P keeps off the path
import kernel_limits

sys.path.pop(0)

FIRST_PIPE = 3  # a forked process has its pipes here and after, and nothing else open
OUT_OF_THE_WAY = 100
MOST_BYTES = 1 << 16  # of what one process may tell; more is a program that found the pipe
MOST_THREADS = 32
LOOK_EVERY_S = 0.01
ENDED_EARLY = "ended before its tests were over"
ALWAYS_READABLE = ("/usr", "/lib", "/lib64", "/etc/localtime", "/dev/zero", "/dev/random", "/dev/urandom")
# All that can be told of an exception where the program could write it itself.
_WHY = re.compile(r"([A-Za-z]{1,40}) in (?:the program|the tests(?:, line \d{1,6})?)")


def main(settings: dict) -> None:
    """Answer requests from stdin until it closes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kernel_limits.die_with_parent(settings["parent"], signal.SIGTERM)
    replies = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not look like a reply
    os.chdir("/")
    sys.path.extend(settings["path"])
    missing = []
    for name in settings["preload"]:  # once here, instead of once in every program
        try:
            __import__(name)
        except Exception as error:
            missing.append(f"{name} ({type(error).__name__}: {error})")
    # So that a program that draws numbers has one verdict, not another on each run.
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    with contextlib.suppress(OSError):  # when memory runs out, a program goes before what it is run for
        Path("/proc/self/oom_score_adj").write_text("500")
    kernel_limits.be_private()
    gc.freeze()  # a forked process would else copy what its collector looks at
    cage = _Cage(settings)
    replies.write(json.dumps({"missing": missing, "kernel": cage.kernel}) + "\n")
    for line in sys.stdin.buffer:
        replies.write(json.dumps(_supervise(json.loads(line), cage)) + "\n")


class _Cage:
    """What holds a process, as far as this machine has it; tried once, in a process that then ends."""

    def __init__(self, settings: dict) -> None:
        self.files: list[int] = settings["files"]  # of the program, of the tests; never read here
        # Where a process says that it could not be held, in which case nothing of a program runs.
        self.trouble, self.in_trouble = (_out_of_the_way(pipe) for pipe in os.pipe())
        readable = [*ALWAYS_READABLE, *settings["path"], *settings["readable"]]
        self._holds: dict[str, kernel_limits.PathRules | kernel_limits.CallFilter] = {}  # in the order of loading
        self._try("paths", settings, lambda: _path_rules(readable, settings["landlock"]))
        self._try("calls", settings, lambda: kernel_limits.CallFilter(write_null="paths" in self._holds))
        self.kernel = {name: name in self._holds for name in ("calls", "paths")}

    def _try(
        self, name: str, settings: dict, made: Callable[[], kernel_limits.PathRules | kernel_limits.CallFilter]
    ) -> None:
        with contextlib.suppress(OSError):
            if name not in settings["without"]:
                hold = made()
                if _works(hold.load):
                    self._holds[name] = hold

    def check(self) -> None:
        """Raise SystemExit where a process was not held."""
        if select.select([self.trouble], [], [], 0)[0]:
            sys.exit(1)

    def shut(self) -> None:
        """Hold this process, for good."""
        kernel_limits.drop_privileges()
        for hold in self._holds.values():
            hold.load()
        if not self.kernel["calls"]:
            _discourage()


def _path_rules(readable: list[str], most: int) -> kernel_limits.PathRules:
    rules = kernel_limits.PathRules(readable, most)
    rules.rules = _out_of_the_way(rules.rules)
    return rules


def _out_of_the_way(number: int) -> int:
    """The same open file under a number that no process's own pipes will take."""
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)
    os.close(number)
    return moved


def _works(attempt: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            kernel_limits.drop_privileges()
            attempt()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# The supervisor's side of one program


def _supervise(request: dict, cage: _Cage) -> dict:
    """Run one program to its end, or end it.

    Returns:
        ``passed``, how many of the tests passed; ``why`` the next did not; ``failure``, why nobody can tell;
        ``self_judged``, whether what passed is the program's own word, as it ran in one process with its tests.
    """
    asked, asking = os.pipe()
    answering, answers = os.pipe()
    report, reporting = os.pipe()
    # The program's process before there are any words, and without the tests: it cannot find what it never had.
    program = _fork(request, cage, [asked, answers], apart.serve, cage.files[:1])
    words = [os.urandom(8).hex() for _ in range(request["tests"])]
    tests = _fork(request, cage, [reporting, asking, answering], apart.test, cage.files, words)
    for pipe in (asked, asking, answering, answers, reporting):
        os.close(pipe)
    said = _watch(report, {"program": program, "tests": tests}, words, request)
    cage.check()
    if said.pop("kind") != apart.TOGETHER:
        return {**said, "self_judged": False}
    report, reporting = os.pipe()
    both = _fork(request, cage, [reporting], apart.together, cage.files, words)
    os.close(reporting)
    said = _watch(report, {"program": both}, words, request)
    cage.check()
    del said["kind"]
    return {**said, "self_judged": said["passed"] > 0}


def _watch(report: int, children: dict[str, int], words: list[str], request: dict) -> dict:
    """What became of processes, one of which tells how the tests end; they are over then."""
    told, cut_off = b"", "timeout"  # also when the supervisor is told to end
    passed = 0
    try:
        said, cut_off = _listen(report, time.monotonic() + request["wall_s"], list(children.values()))
        lines = [*said.split(b"\n"), b""]
        while passed < len(words) and lines[passed] == words[passed].encode():
            passed += 1
        told = lines[passed]
    finally:
        os.close(report)
        kind, reason = told[:1], told[1:].decode("ascii", "replace")
        silent = cut_off is None and passed < len(words) and kind in (b"", apart.ENDED)
        ends = [_end(child, wait=silent) for child in children.values()]
    # Out of CPU time may be who ignored the first signal; the kernel measures limit and usage with different clocks.
    enough = 0.8 * request["cpu_s"]
    verdict = {"kind": kind, "passed": passed, "why": cut_off, "failure": None}
    if passed == len(words):
        verdict["why"] = None
    elif any(by == signal.SIGXCPU or (by == signal.SIGKILL and cpu_s > enough) for by, cpu_s, _ in ends):
        verdict |= {"kind": b"", "why": "timeout"}
    elif cut_off is not None:
        verdict["kind"] = b""
    elif kind == apart.WHY:
        verdict["why"] = _checked(reason)
    elif "tests" in children and kind == apart.FAILURE:
        verdict["failure"] = reason
    elif "tests" not in children or kind != apart.TOGETHER:
        fates = [by for by, _, killed in ends if by and not killed]
        if signal.SIGKILL in fates:
            verdict["failure"] = "killed from outside, as when memory runs out"
        else:
            verdict["why"] = f"killed by {signal.Signals(fates[0]).name}" if fates else ENDED_EARLY
    return verdict


def _checked(reason: str) -> str:
    """What a program may have written itself: a known exception and a line, so that it tells nothing else."""
    match = _WHY.fullmatch(reason)
    raised = getattr(builtins, match[1], None) if match else None
    return reason if isinstance(raised, type) and issubclass(raised, BaseException) else "Exception in the program"


def _listen(report: int, deadline: float, children: list[int]) -> tuple[bytes, str | None]:
    """All that is told until the pipe closes, and why it did not come to that.

    Raises:
        SystemExit: Nobody listens to the supervisor any more.
    """
    said = b""
    ready = select.poll()
    ready.register(report, select.POLLIN)
    ready.register(0, 0)  # no event asked for: still told when the other side closes it
    while True:
        left = deadline - time.monotonic()
        events = dict(ready.poll(max(0, min(left, LOOK_EVERY_S)) * 1000))
        if 0 in events:
            sys.exit(1)
        if report in events:
            piece = os.read(report, 4096)
            said += piece
            if not piece or len(said) > MOST_BYTES:
                return said, None
        elif left <= 0:
            return said, "timeout"
        elif any(_threads(child) > MOST_THREADS for child in children):
            return said, "too many threads"


def _threads(child: int) -> int:
    """How many a process has; 0 where nobody can tell."""
    try:
        with open(f"/proc/{child}/stat", "rb") as file:  # noqa: PTH123 (asked every few milliseconds)
            return int(file.read().rpartition(b")")[2].split()[17])
    except (OSError, ValueError, IndexError):
        return 0


def _end(child: int, *, wait: bool) -> tuple[int, float, bool]:
    """Kill a process with all that it may have started.

    Args:
        child: Its id.
        wait: Whether it may be ending by itself, of which it is worth to see how.

    Returns:
        The signal that ended it, or 0; its CPU seconds; whether it was still there to be killed.
    """
    pid, status, usage = os.wait4(child, os.WNOHANG)
    patience = time.monotonic() + 0.05
    while wait and not pid and time.monotonic() < patience:
        time.sleep(0.0005)
        pid, status, usage = os.wait4(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if not pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, usage.ru_utime + usage.ru_stime, not pid


# The forked side


def _fork(
    request: dict, cage: _Cage, pipes: list[int], work: Callable[..., None], files: list[int], *arguments: Any
) -> int:
    """A process that reads files, restricts itself, then works. Nothing after that can be trusted to work."""
    supervisor = os.getpid()
    child = os.fork()
    if child:
        return child
    leave = os._exit
    try:
        try:
            texts = [json.loads(os.pread(file, os.fstat(file).st_size, 0)) for file in files]
            _restrict(request, cage, pipes, supervisor)
        except BaseException:
            os.write(cage.in_trouble, b"!")
            leave(1)
        work(*texts, *arguments, *range(FIRST_PIPE, FIRST_PIPE + len(pipes)))
    except BaseException:
        leave(1)
    finally:
        leave(0)


def _restrict(request: dict, cage: _Cage, pipes: list[int], supervisor: int) -> None:
    """Give up everything that a small program does not need. The order matters: each step needs what the next takes."""
    kernel_limits.die_with_parent(supervisor, signal.SIGKILL)
    os.setpgid(0, 0)
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    for number, pipe in enumerate([_out_of_the_way(pipe) for pipe in pipes]):
        os.dup2(pipe, FIRST_PIPE + number)
    threads = {name: "1" for name in os.environ if name.endswith("_NUM_THREADS")}
    os.environ.clear()
    os.environ.update(threads, HOME="/")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limits = {
        resource.RLIMIT_CPU: request["cpu_s"],
        resource.RLIMIT_AS: request["memory_bytes"],
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: request["open_files"],
        resource.RLIMIT_CORE: 0,
    }
    if not cage.kernel["calls"]:  # else the filter refuses processes, of root too, which this limit does not bind
        limits[resource.RLIMIT_NPROC] = 0
    for name, value in limits.items():
        _, hard = resource.getrlimit(name)
        # Of CPU time one second more to the very end: a signal that says what it is comes first.
        both = (value, value + 1 if name == resource.RLIMIT_CPU else value)
        if hard != resource.RLIM_INFINITY:
            both = (min(both[0], hard), min(both[1], hard))
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some; the time limit still stands
            resource.setrlimit(name, both)
    cage.shut()
    os.closerange(FIRST_PIPE + len(pipes), 1 << 16)  # the rules of paths were among them


def _discourage() -> None:
    """Where the kernel offers no filter: take the doors out of Python, which stops who does not look for others."""
    import socket

    def refused(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "not allowed here")

    for owner, names in (
        (socket.socket, ("connect", "connect_ex", "bind", "sendto", "sendmsg")),
        (os, ("fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execve", "system", "kill", "killpg")),
    ):
        for name in names:
            setattr(owner, name, refused)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
