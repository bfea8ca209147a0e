"""What the Linux kernel takes from a process for good: calls, files and privileges.

Three of its means, open to every user, in a container too, and not to be undone by the process: a seccomp filter, which
lets pass the system calls of a list and refuses every other; a Landlock rule set, which lets files be read below some
paths only (Linux 5.13 and later); and the end of all capabilities. The filter is written by libseccomp, which every
distribution with systemd or apt has, so that no number of a call and no instruction of a filter is ours. Landlock has
no C library; its three numbers are the same on every processor.

With the filter no version of Landlock gives more than the first: what later ones add (truncating, ioctl on devices,
signals and abstract sockets) are calls and arguments that the filter does not let pass.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
import sys
from collections.abc import Iterable, Sequence

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38

# What a program may ask of the kernel, whatever the arguments: its own memory, time, signal handlers and threads; to
# read files that Landlock lets it open; to write to what is open already; to learn about itself.
_ALLOWED: Sequence[str] = (
    "read", "readv", "pread64", "write", "writev", "lseek", "close", "close_range", "dup", "dup2", "dup3", "pipe",
    "pipe2", "eventfd2", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "access",
    "faccessat", "faccessat2", "readlink", "readlinkat", "getdents64", "getcwd", "chdir", "fchdir", "umask",
    "select", "pselect6", "poll", "ppoll", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait",
    "epoll_pwait", "mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn", "rt_sigsuspend", "rt_sigpending", "rt_sigtimedwait", "sigaltstack", "pause", "restart_syscall",
    "alarm", "setitimer", "getitimer", "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres",
    "gettimeofday", "time", "times", "getrusage", "exit", "exit_group", "futex", "set_robust_list",
    "set_tid_address", "rseq", "membarrier", "arch_prctl", "sched_yield", "sched_getaffinity",
    "sched_get_priority_max", "sched_get_priority_min", "getpriority", "getcpu", "getpid", "getppid", "gettid",
    "getuid", "geteuid", "getgid", "getegid", "getgroups", "getresuid", "getresgid", "getpgrp", "getpgid", "getsid",
    "uname", "sysinfo", "getrandom", "getrlimit", "setrlimit", "recvfrom", "getsockopt", "getsockname",
    "getpeername", "shutdown",
)  # fmt: skip

# libseccomp's comparisons, and rules on arguments: which one, compared how, with what. A masked comparison reads its
# first number as the mask. Rules for one call are alternatives.
_EQUAL, _MASKED = 4, 7
_WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_A_THREAD = 0x3D0F00  # the flags with which C libraries make one; musl adds CLONE_DETACHED, which means nothing
_AF_UNIX, _SOCK_STREAM, _O_ASYNC = 1, 1, 0x2000
_Test = tuple[int, int, int, int]
_WITH: list[tuple[str, tuple[_Test, ...]]] = [
    ("open", ((1, _MASKED, _WRITING, os.O_RDONLY),)),
    ("openat", ((2, _MASKED, _WRITING, os.O_RDONLY),)),
    ("clone", ((0, _MASKED, 0xFFFFFFFF & ~0x400000, _A_THREAD),)),
    # asyncio wakes itself through one. A socket for datagrams, or an address to send to, would reach other sockets.
    ("socketpair", ((0, _EQUAL, _AF_UNIX, 0), (1, _MASKED, 0xFF, _SOCK_STREAM))),
    ("sendto", ((4, _EQUAL, 0, 0),)),
    # Duplicate, close-on-exec, and flags but for the one that sends signals. No owner, lease, lock, size of a pipe.
    *(("fcntl", ((1, _EQUAL, command, 0),)) for command in (0, 1, 2, 3, 1030)),
    ("fcntl", ((1, _EQUAL, 4, 0), (2, _MASKED, _O_ASYNC, 0))),
    # Is it a terminal, how wide, how much is there, do not block, close on exec. Nothing on inodes.
    *(("ioctl", ((1, _EQUAL, request, 0),)) for request in (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    # The name of a thread or of memory; whether privileges can be got.
    *(("prctl", ((0, _EQUAL, option, 0),)) for option in (15, 16, 39, 0x53564D41)),
    ("prlimit64", ((0, _EQUAL, 0, 0),)),
]
# For opening /dev/null, where Landlock refuses to write anything else.
_WRITE_ONLY: list[tuple[str, tuple[_Test, ...]]] = [
    ("open", ((1, _MASKED, os.O_ACCMODE, os.O_WRONLY),)),
    ("openat", ((2, _MASKED, os.O_ACCMODE, os.O_WRONLY),)),
]
# As if the kernel were too old for them: C libraries then take an older call, whose arguments can be looked at.
_UNKNOWN = ("clone3", "openat2", "epoll_pwait2")

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OPTIMIZE = 8  # SCMP_FLTATR_CTL_OPTIMIZE, since libseccomp 2.5: 2 for a binary tree

# landlock(7): rights, the first ABI that knows them, and which of them a single file can have.
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_RIGHTS_SINCE = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_OF_A_FILE = _EXECUTE | 1 << 1 | _READ_FILE | 1 << 14 | 1 << 15
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class CallFilter:
    """The seccomp filter: built once, loaded by each process that is to be held by it.

    Args:
        write_null: Let files be opened for writing, which Landlock then must refuse but for /dev/null.

    Raises:
        OSError: No libseccomp, or it does not do what it is asked for.
    """

    def __init__(self, *, write_null: bool) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, "no seccomp")
        self._library = library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        library.seccomp_init.restype = ctypes.c_void_p
        library.seccomp_init.argtypes = [ctypes.c_uint32]
        library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
        library.seccomp_rule_add_array.argtypes = [
            ctypes.c_void_p,
            ctypes.c_uint32,
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_void_p,
        ]
        library.seccomp_load.argtypes = [ctypes.c_void_p]
        # Calls of another instruction set (32-bit ones on x86_64, x32) end the process: libseccomp's own default.
        self._context = library.seccomp_init(_ERRNO | errno.EPERM)
        if not self._context:
            raise OSError(errno.ENOMEM, "seccomp_init")
        library.seccomp_attr_set(self._context, _OPTIMIZE, 2)  # an older library filters as well, slower
        for name in _ALLOWED:
            self._rule(_ALLOW, name)
        for name, tests in _WITH + (_WRITE_ONLY if write_null else []):
            self._rule(_ALLOW, name, *tests)
        for name in _UNKNOWN:
            self._rule(_ERRNO | errno.ENOSYS, name)

    def load(self) -> None:
        """Hold this process, and every thread that it will start, by the filter.

        Raises:
            OSError: The kernel refuses.
        """
        self._rule(_ALLOW, "tgkill", (0, _EQUAL, os.getpid(), 0))  # abort(3) signals itself
        failed = self._library.seccomp_load(self._context)
        if failed:
            raise OSError(-failed, f"seccomp_load: {os.strerror(-failed)}")

    def _rule(self, action: int, name: str, *tests: _Test) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # this processor, or this library, knows no such call: it stays refused
            return
        array = (_Comparison * len(tests))(*tests)
        failed = self._library.seccomp_rule_add_array(self._context, action, number, len(tests), array)
        if failed:
            raise OSError(-failed, f"seccomp_rule_add for {name}: {os.strerror(-failed)}")


def die_with_parent(parent: int, signal_number: int) -> None:
    """Get a signal when the parent ends (the thread of it that made this process); end if that has happened already.

    Args:
        parent: The parent's process id, as it was when it made this process.
        signal_number: SIGKILL, or one that a handler waits for.
    """
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(1)


def be_private() -> None:
    """Nobody without privileges may look into this process, nor into those that it forks (ptrace(2), proc(5))."""
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_privileges() -> None:
    """Give up every capability, and the way to get any by executing a file (setuid programs)."""
    if sys.platform.startswith("linux"):
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
        if _libc().capset(header, bytes(24)) != 0:
            raise _os_error("capset")


def landlock_abi() -> int:
    """The kernel's version of Landlock; 0 where it has none, or a container forbids it."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, _syscall(_LANDLOCK_CREATE, None, 0, 1))


class PathRules:
    """The Landlock rule set: open nothing any more but files below some paths for reading, and /dev/null.

    Args:
        readable: Files and folders; one that is not there is passed over.
        most: Use no version of Landlock above this one.

    Raises:
        OSError: The kernel has no Landlock, or refuses.
    """

    def __init__(self, readable: Iterable[str], most: int) -> None:
        abi = min(landlock_abi(), most)
        if abi < 1:
            raise OSError(errno.ENOSYS, "no Landlock")
        handled = sum(rights for since, rights in _RIGHTS_SINCE.items() if since <= abi)
        # The second number would refuse TCP ports, which the filter does; the third signals and abstract sockets.
        attributes = struct.pack("QQQ", handled, 0, 0b11 if abi >= 6 else 0)[: 24 if abi >= 6 else 8]
        rules = _syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
        if rules < 0:
            raise _os_error("landlock_create_ruleset")
        self.rules = rules  # an open file
        for path in readable:
            _allow(self.rules, path, (_READ_FILE | _READ_DIR | _EXECUTE) & handled)
        _allow(self.rules, os.devnull, handled)

    def load(self) -> None:
        """Hold this process, which may get no privileges any more, and every thread that it will start.

        Raises:
            OSError: The kernel refuses.
        """
        if _syscall(_LANDLOCK_RESTRICT, self.rules, 0) != 0:
            raise _os_error("landlock_restrict_self")


def _allow(rule_set: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112 (pathlib is not worth its import in every program's process)
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, target)
        if _syscall(_LANDLOCK_ADD, rule_set, 1, rule, 0) != 0:
            raise _os_error(f"landlock_add_rule for {path}")
    finally:
        os.close(target)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _whole(arguments: Iterable[int | bytes | None]) -> list[object]:
    """Arguments of a variadic function: a bare int would go as 32 bits, and the kernel reads 64."""
    return [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]


def _syscall(*arguments: int | bytes | None) -> int:
    return int(_libc().syscall(*_whole(arguments)))


def _prctl(option: int, *arguments: int | bytes) -> None:
    padded = (*arguments, 0, 0, 0)[:4]
    if sys.platform.startswith("linux") and _libc().prctl(option, *_whole(padded)) != 0:
        raise _os_error(f"prctl {option}")


def _os_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
