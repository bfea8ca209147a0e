"""Restrict a process for the rest of its life by the Linux kernel: its system calls, files and privileges.

Every user may use these three restrictions, also in a container. The process cannot undo them.

- A seccomp filter allows the system calls of a list and refuses all others. libseccomp writes it, which every
  distribution with systemd or apt has. So this module needs no numbers of calls and no instructions of a filter.
- A Landlock rule set allows reading below some paths only (Linux 5.13 and later). It has no C library, but its three
  call numbers are the same on every processor.
- All capabilities are dropped.

With the filter, later versions of Landlock add nothing to the first. They restrict truncation, ioctl on devices,
signals and abstract sockets, which the filter refuses anyway.
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

# Calls that are allowed with any arguments. They are about the process's own memory, time, signal handlers and threads.
# They read files that Landlock lets it open, write to open files, and tell the process about itself.
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

# libseccomp's comparisons, and calls that are allowed with some arguments. A test has the argument, the comparison and
# its numbers. A masked comparison uses the first number as the mask. Rules for the same call are alternatives.
_EQUAL, _MASKED = 4, 7
_WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_A_THREAD = 0x3D0F00  # the flags of C libraries for a thread; musl adds CLONE_DETACHED, which has no effect
_AF_UNIX, _SOCK_STREAM, _O_ASYNC = 1, 1, 0x2000
_Test = tuple[int, int, int, int]
_WITH: list[tuple[str, tuple[_Test, ...]]] = [
    ("open", ((1, _MASKED, _WRITING, os.O_RDONLY),)),
    ("openat", ((2, _MASKED, _WRITING, os.O_RDONLY),)),
    ("clone", ((0, _MASKED, 0xFFFFFFFF & ~0x400000, _A_THREAD),)),
    # asyncio wakes itself through a socket pair. Datagrams or an address could reach other sockets.
    ("socketpair", ((0, _EQUAL, _AF_UNIX, 0), (1, _MASKED, 0xFF, _SOCK_STREAM))),
    ("sendto", ((4, _EQUAL, 0, 0),)),
    # Duplicate, close-on-exec, and flags except O_ASYNC, which sends signals. No owner, lease, lock or size of a pipe.
    *(("fcntl", ((1, _EQUAL, command, 0),)) for command in (0, 1, 2, 3, 1030)),
    ("fcntl", ((1, _EQUAL, 4, 0), (2, _MASKED, _O_ASYNC, 0))),
    # Whether it is a terminal, its width, the bytes to read, non-blocking mode, close-on-exec. Nothing on inodes.
    *(("ioctl", ((1, _EQUAL, request, 0),)) for request in (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    # The name of a thread or of memory, and whether new privileges are possible.
    *(("prctl", ((0, _EQUAL, option, 0),)) for option in (15, 16, 39, 0x53564D41)),
    ("prlimit64", ((0, _EQUAL, 0, 0),)),
]
# For opening /dev/null if Landlock refuses to write any other file.
_WRITE_ONLY: list[tuple[str, tuple[_Test, ...]]] = [
    ("open", ((1, _MASKED, os.O_ACCMODE, os.O_WRONLY),)),
    ("openat", ((2, _MASKED, os.O_ACCMODE, os.O_WRONLY),)),
]
# The filter claims that the kernel lacks these. C libraries then use an older call, whose arguments it can test.
_UNKNOWN = ("clone3", "openat2", "epoll_pwait2")

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OPTIMIZE = 8  # SCMP_FLTATR_CTL_OPTIMIZE, since libseccomp 2.5: 2 for a binary tree

# landlock(7): rights, the first ABI that has them, and those that apply to a file.
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
    """The seccomp filter. It is built once and loaded by each process to restrict.

    Args:
        write_null: Allow opening files for writing. Landlock must then refuse all but /dev/null.

    Raises:
        OSError: There is no libseccomp, or it reports an error.
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
        # Calls of another instruction set (32-bit or x32 on x86_64) end the process, which is libseccomp's default.
        self._context = library.seccomp_init(_ERRNO | errno.EPERM)
        if not self._context:
            raise OSError(errno.ENOMEM, "seccomp_init")
        library.seccomp_attr_set(self._context, _OPTIMIZE, 2)  # an older library ignores this, and its filter is slower
        for name in _ALLOWED:
            self._rule(_ALLOW, name)
        for name, tests in _WITH + (_WRITE_ONLY if write_null else []):
            self._rule(_ALLOW, name, *tests)
        for name in _UNKNOWN:
            self._rule(_ERRNO | errno.ENOSYS, name)

    def load(self) -> None:
        """Apply the filter to this process and to every thread that it will start.

        Raises:
            OSError: The kernel refuses.
        """
        self._rule(_ALLOW, "tgkill", (0, _EQUAL, os.getpid(), 0))  # abort(3) signals itself
        failed = self._library.seccomp_load(self._context)
        if failed:
            raise OSError(-failed, f"seccomp_load: {os.strerror(-failed)}")

    def _rule(self, action: int, name: str, *tests: _Test) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # the processor or the library lacks this call, which stays refused
            return
        array = (_Comparison * len(tests))(*tests)
        failed = self._library.seccomp_rule_add_array(self._context, action, number, len(tests), array)
        if failed:
            raise OSError(-failed, f"seccomp_rule_add for {name}: {os.strerror(-failed)}")


def die_with_parent(parent: int, signal_number: int) -> None:
    """Request a signal at the end of the parent, or exit if the parent has already ended.

    The kernel sends it when the thread that made this process ends.

    Args:
        parent: The process id of the parent at the time of the fork.
        signal_number: SIGKILL, or a signal that this process handles.
    """
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(1)


def be_private() -> None:
    """Forbid processes without privileges to inspect this process and its forks (ptrace(2), proc(5))."""
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_privileges() -> None:
    """Drop all capabilities, and the possibility to gain any by a setuid program."""
    if sys.platform.startswith("linux"):
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
        if _libc().capset(header, bytes(24)) != 0:
            raise _os_error("capset")


def landlock_abi() -> int:
    """Return the kernel's version of Landlock, or 0 if it has none or a container forbids it."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, _syscall(_LANDLOCK_CREATE, None, 0, 1))


class PathRules:
    """The Landlock rule set. It allows reading files below some paths, and all access to /dev/null.

    Args:
        readable: Files and folders. Missing or inaccessible paths are skipped.
        most: The highest version of Landlock to use.

    Raises:
        OSError: The kernel has no Landlock, or refuses.
    """

    def __init__(self, readable: Iterable[str], most: int) -> None:
        abi = min(landlock_abi(), most)
        if abi < 1:
            raise OSError(errno.ENOSYS, "no Landlock")
        handled = sum(rights for since, rights in _RIGHTS_SINCE.items() if since <= abi)
        # The second number could restrict TCP ports, which the filter refuses. The third restricts signals and
        # abstract sockets.
        attributes = struct.pack("QQQ", handled, 0, 0b11 if abi >= 6 else 0)[: 24 if abi >= 6 else 8]
        rules = _syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
        if rules < 0:
            raise _os_error("landlock_create_ruleset")
        self.rules = rules  # an open file
        for path in readable:
            _allow(self.rules, path, (_READ_FILE | _READ_DIR | _EXECUTE) & handled)
        _allow(self.rules, os.devnull, handled)

    def load(self) -> None:
        """Apply the rules to this process and to every thread that it will start. `drop_privileges` must come first.

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
    """Convert integers for a variadic C function, which would get 32 bits where the kernel reads 64."""
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
