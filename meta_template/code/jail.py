"""Run programs that a model wrote, each in its own restricted processes.

As a script this file is the supervisor. `runner` starts it and sends a JSON request in each line. For each program the
supervisor forks processes, watches them, kills them and replies with the result. It runs no code of a program and is
not restricted itself. A forked process restricts itself before it runs the first line. `runner` lists the restrictions.
`apart` separates a program from its tests.
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
import apart  # in this file's folder, which -P keeps off the path
import kernel_limits

sys.path.pop(0)

FIRST_PIPE = 3  # a forked process has /dev/null as 0 to 2, its pipes from here on, and no other open file
OUT_OF_THE_WAY = 100
MOST_BYTES = 1 << 16  # of a process's report; only a program that found the pipe sends more
MOST_THREADS = 32
LOOK_EVERY_S = 0.01
ENDED_EARLY = "ended before its tests were over"
ALWAYS_READABLE = ("/usr", "/lib", "/lib64", "/etc/localtime", "/dev/zero", "/dev/random", "/dev/urandom")
# The only form of a reason that is accepted where the program could write it itself.
_WHY = re.compile(r"([A-Za-z]{1,40}) in (?:the program|the tests(?:, line \d{1,6})?)")


def main(settings: dict) -> None:
    """Answer requests from stdin until it closes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kernel_limits.die_with_parent(settings["parent"], signal.SIGTERM)
    replies = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library's output must not look like a reply
    os.chdir("/")
    sys.path.extend(settings["path"])
    missing = []
    for name in settings["preload"]:  # once here and not in every program
        try:
            __import__(name)
        except Exception as error:
            missing.append(f"{name} ({type(error).__name__}: {error})")
    # A program that draws random numbers gets the same verdict on each run.
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    # If memory runs out, the kernel kills a program before the process that needs its verdict.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    kernel_limits.be_private()
    gc.freeze()  # otherwise the collector of each forked process would copy memory
    cage = _Cage(settings)
    replies.write(json.dumps({"missing": missing, "kernel": cage.kernel}) + "\n")
    for line in sys.stdin.buffer:
        replies.write(json.dumps(_supervise(json.loads(line), cage)) + "\n")


class _Cage:
    """The restrictions that this machine supports. Each is tried once, in a process that then ends."""

    def __init__(self, settings: dict) -> None:
        self.files: list[int] = settings["files"]  # of the program and of the tests; never read here
        # A process that could not be restricted reports it here and runs nothing.
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
        """Stop the supervisor if a process could not be restricted.

        Raises:
            SystemExit: It could not.
        """
        if select.select([self.trouble], [], [], 0)[0]:
            sys.exit(1)

    def shut(self) -> None:
        """Restrict this process for the rest of its life."""
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
    """Move an open file to a number that is above those of all pipes."""
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


# The supervisor


def _supervise(request: dict, cage: _Cage) -> dict:
    """Run a program until it ends or reaches a limit.

    Returns:
        - ``passed``: the number of tests that passed.
        - ``why``: why the next test did not pass.
        - ``failure``: why there is no verdict.
        - ``self_judged``: whether tests passed in the process of the program, which could have faked it.
    """
    asked, asking = os.pipe()
    answering, answers = os.pipe()
    report, reporting = os.pipe()
    # Fork the program's process before the words exist and without the tests, so it cannot find them.
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
    """Wait for the report on the tests, end all processes, and return the result."""
    told, cut_off = b"", "timeout"  # also if the supervisor must end
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
    # A program may ignore the first signal of the CPU limit. The kernel measures limit and usage by different clocks.
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
    """Accept a reason only if it is a known exception with a place, because a program may have written it."""
    match = _WHY.fullmatch(reason)
    raised = getattr(builtins, match[1], None) if match else None
    return reason if isinstance(raised, type) and issubclass(raised, BaseException) else "Exception in the program"


def _listen(report: int, deadline: float, children: list[int]) -> tuple[bytes, str | None]:
    """Read the report until the pipe closes or a limit is reached.

    Returns:
        The report, and the limit that was reached or None.

    Raises:
        SystemExit: The process that started the supervisor is gone.
    """
    said = b""
    ready = select.poll()
    ready.register(report, select.POLLIN)
    ready.register(0, 0)  # poll reports a closed pipe although no event is requested
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
    """Return the number of threads of a process, or 0 if it is unknown."""
    try:
        with open(f"/proc/{child}/stat", "rb") as file:  # noqa: PTH123 (called every few milliseconds)
            return int(file.read().rpartition(b")")[2].split()[17])
    except (OSError, ValueError, IndexError):
        return 0


def _end(child: int, *, wait: bool) -> tuple[int, float, bool]:
    """Kill a process and its process group.

    Args:
        child: The id of the process.
        wait: Whether to give the process 0.05 s to end by itself, so that its own signal is known.

    Returns:
        The signal that ended it or 0, its CPU seconds, and whether it had to be killed.
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
    """Fork a process that reads files, restricts itself, then works. After that its modules cannot be trusted."""
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
    """Give up everything that a small program does not need. The order matters: later steps forbid earlier ones."""
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
    if not cage.kernel["calls"]:  # the filter refuses new processes, even root's, to whom this limit does not apply
        limits[resource.RLIMIT_NPROC] = 0
    for name, value in limits.items():
        _, hard = resource.getrlimit(name)
        # A second before the kernel kills it for CPU time, the process gets a signal that names the limit.
        both = (value, value + 1 if name == resource.RLIMIT_CPU else value)
        if hard != resource.RLIM_INFINITY:
            both = (min(both[0], hard), min(both[1], hard))
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some; the wall limit still applies
            resource.setrlimit(name, both)
    cage.shut()
    os.closerange(FIRST_PIPE + len(pipes), 1 << 16)  # also the rules of paths


def _discourage() -> None:
    """Disable Python's functions for sockets and processes if there is no filter. A program can get around it."""
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
