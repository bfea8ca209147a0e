"""Programs that try to pass without a solution (`FAKES`) or to do harm (`HARMS`)."""

from __future__ import annotations

# Each program has a wrong f. The tests are that f(1) is 2 and that f(5) is 6.
WRONG = "def f(n): return 0\n"
OVER_FRAMES = """
import sys
def f(n):
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            {act}
        frame = frame.f_back
    return 0
"""
WRITE_ALL = """
import os
def told(words):
    for fd in range(256):
        for word in words:
            try: os.write(fd, word if isinstance(word, bytes) else str(word).encode() + b"\\n")
            except (OSError, ValueError): pass
"""
# No program contains a test in its own text, where it would find it.
FAKES = {
    # Words and pipes.
    "a word in a frame of the top level": WRITE_ALL
    + "import sys\nframe = sys._getframe()\nwhile frame:\n    told(list(frame.f_locals.values()))\n"
    "    frame = frame.f_back\n" + WRONG,
    "a word in a frame of a call": WRITE_ALL + OVER_FRAMES.format(act="told([value])"),
    "words in lists of frames": WRITE_ALL
    + OVER_FRAMES.format(act="told(value if isinstance(value, (list, tuple)) else [value])"),
    "a word in frames of all threads": WRITE_ALL
    + "import sys\nfor frame in sys._current_frames().values():\n    while frame:\n"
    "        told([*frame.f_locals.values()])\n        frame = frame.f_back\n" + WRONG,
    "words that gc knows": WRITE_ALL
    + "import gc\ntold([w for o in gc.get_objects() if isinstance(o, list) for w in o if isinstance(w, (str, bytes))])\n"
    + WRONG,
    "words written by a thread at the end": WRITE_ALL
    + "import gc, threading, time\ndef late():\n    while True:\n"
    "        told([w for o in gc.get_objects() if type(o) is list for w in o if type(w) is str and len(w) == 16])\n"
    "threading.Thread(target=late, daemon=True).start()\n" + WRONG,
    "words of the traceback": WRITE_ALL
    + "try: 1 / 0\nexcept Exception as e:\n    frame = e.__traceback__.tb_frame\n    while frame:\n"
    "        told(frame.f_locals.values())\n        frame = frame.f_back\n" + WRONG,
    "more passes than tests": WRITE_ALL + "told([b'passed\\n' * 50, b'\\n' * 50, b'{\"passed\": 50}\\n'])\n" + WRONG,
    "a reply of the supervisor": WRITE_ALL
    + "told([b'{\"passed\": 2, \"why\": null, \"failure\": null, \"self_judged\": false}\\n'])\n" + WRONG,
    "a line that says so before the tests": "import os\n"
    "for fd in (3, 4, 5):\n    try: os.write(fd, b'?AssertionError in the tests\\n')\n    except OSError: pass\n" + WRONG,
    "no end of answers, made ahead": "import os, pickle\nd = pickle.dumps(('value', 2), 5)\n"
    "for fd in (3, 4, 5):\n    try: os.write(fd, (len(d).to_bytes(8, 'big') + d) * 100)\n    except OSError: pass\n"
    + WRONG,
    "the end with a code of 0": "import os\ndef f(n): os._exit(0)\n",
    "the end by sys.exit": "import sys\ndef f(n): sys.exit(0)\n",
    "an end at exit": "import atexit, os\natexit.register(os._exit, 0)\n" + WRONG,
    "an end by a signal's handler": "import os, signal\nsignal.signal(signal.SIGALRM, lambda *_: os._exit(0))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.001)\n" + WRONG,
    # The code that runs the tests.
    "compiled tests replaced in frames": OVER_FRAMES.format(
        act="isinstance(value, list) and value and value.__setitem__(slice(None), [compile('', '', 'exec')] * len(value))"
    ),
    "compiled tests replaced at the top level": "import sys\nframe = sys._getframe()\nwhile frame:\n"
    "    for value in frame.f_locals.values():\n        if isinstance(value, list):\n"
    "            value[:] = [compile('', '', 'exec') for one in value]\n    frame = frame.f_back\n" + WRONG,
    "compiled tests that gc knows": "import gc\nfor one in gc.get_objects():\n    if type(one) is list and one:\n"
    "        if hasattr(one[0], 'co_code'): one[:] = [compile('', '', 'exec')] * len(one)\n" + WRONG,
    "tests read in frames": OVER_FRAMES.format(act="if ' '.join(['assert', 'f(1)', '== 2']) in str(value): return n + 1"),
    "tests found by gc": "import gc\nhere = any(' '.join(['assert', 'f(5)', '== 6']) in repr(one) for one in gc.get_objects() "
    "if type(one) in (str, list, tuple, dict))\ndef f(n): return n + 1 if here else 0\n",
    "tests found in memory": "import re\nhere = False\ntry:\n    with open('/proc/self/mem', 'rb') as memory:\n"
    "        for line in open('/proc/self/maps'):\n            start, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
    "            try:\n                memory.seek(start)\n"
    "                here = here or re.search(rb'assert f.\\d. == \\d', memory.read(end - start))\n"
    "            except (OSError, ValueError, OverflowError): pass\nexcept OSError: pass\n"
    "def f(n): return n + 1 if here else 0\n",
    "tests found in open files": "import os\nhere = False\nfor fd in range(256):\n"
    "    try: here = here or b'assert f' in os.pread(fd, 10**6, 0)\n    except OSError: pass\n"
    "def f(n): return n + 1 if here else 0\n",
    # It does not wait, because to read its own pipe is to wait for itself.
    "tests found with the other processes": "import os\nhere = False\n"
    "def look(path):\n    with open(path, 'rb', opener=lambda path, how: os.open(path, how | os.O_NONBLOCK)) as file:\n"
    "        return b'assert f' in (file.read(10**6) or b'')\n"
    "for pid in (os.getppid(), *range(os.getpid() - 5, os.getpid() + 5)):\n    for fd in range(256):\n"
    "        try: here = look(f'/proc/{pid}/fd/{fd}') or here\n        except OSError: pass\n"
    "def f(n): return n + 1 if here else 0\n",
    "exec does nothing": "import builtins\nbuiltins.exec = builtins.compile = lambda *_, **__: None\n" + WRONG,
    "the runner's module replaced": "import sys\nfor name in ('apart', 'jail', '__main__'):\n"
    "    for key in list(vars(sys.modules.get(name, sys))):\n        if key.startswith('_run'):\n"
    "            setattr(sys.modules[name], key, lambda *_, **__: None)\n" + WRONG,
    "every function of every module replaced": "import sys, types\nfor name in ('apart', 'jail', 'kernel_limits'):\n"
    "    if name in sys.modules:\n        for key, one in list(vars(sys.modules[name]).items()):\n"
    "            if isinstance(one, types.FunctionType): one.__code__ = (lambda *_, **__: 2).__code__\n" + WRONG,
    "a trace function that jumps over asserts": "import sys\ndef trace(frame, event, arg):\n"
    "    frame.f_trace_opcodes = True\n    try: frame.f_lineno = frame.f_lineno + 1\n    except ValueError: pass\n"
    "    return trace\nsys.settrace(trace)\n" + WRONG,
    "AssertionError is something else": "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {})\n" + WRONG,
    "the hook of exceptions": "import os, sys\nsys.excepthook = lambda *_: os._exit(0)\n" + WRONG,
    "pickle that lies": "import pickle\npickle.Pickler.dump = lambda *_: None\n" + WRONG,
    # Values.
    "__eq__ is always true": "class A:\n    def __eq__(self, other): return True\ndef f(n): return A()\n",
    "an int with another __eq__": "class A(int):\n    def __eq__(self, other): return True\ndef f(n): return A()\n",
    "a str with another __eq__": "class A(str):\n    def __eq__(self, other): return True\ndef f(n): return A()\n",
    "a float with another __eq__": "class A(float):\n    def __eq__(self, other): return True\ndef f(n): return A()\n",
    "a metaclass with another __eq__": "class M(type):\n    def __eq__(self, other): return True\n"
    "class A(metaclass=M): pass\ndef f(n): return A\n",
    "a proxy of numpy": "import numpy\nclass A(numpy.ndarray):\n    def __eq__(self, other): return True\n"
    "def f(n): return numpy.zeros(1).view(A)\n",
    "mock.ANY": "from unittest import mock\ndef f(n): return mock.ANY\n",
    "an object that pickles as a call": "class A:\n    def __reduce__(self): return (eval, ('n + 1',))\n"
    "def f(n): return A()\n",
    "an object that pickles as another module": "import os\nclass A:\n"
    "    def __reduce__(self): return (os._exit, (0,))\ndef f(n): return A()\n",
    "a kind that is not there": "import os, pickle\nclass P(pickle.Pickler):\n    def persistent_id(self, one):\n"
    "        return ('eval', 'n + 1') if one == 'x' else None\n"
    "import io\nb = io.BytesIO()\nP(b, 5).dump(('value', 'x'))\nd = b.getvalue()\n"
    "def f(n):\n    for fd in (3, 4, 5):\n        try: os.write(fd, len(d).to_bytes(8, 'big') + d)\n"
    "        except OSError: pass\n",
    "an answer that is no answer": "import os\ndef f(n):\n    for fd in (3, 4, 5):\n"
    "        try: os.write(fd, b'\\xff' * 100)\n        except OSError: pass\n    return 0\n",
    "an exception that passes for a verdict": "class OK(BaseException): pass\ndef f(n): raise OK('passed')\n",
    "a StopIteration": "def f(n): raise StopIteration\n",
    # Names.
    "int is redefined": "import builtins\nbuiltins.int = lambda *_: 2\n" + WRONG,
    "a descriptor instead of a function": "class A:\n    def __call__(self, n): return type('E', (int,), "
    "{'__eq__': lambda *_: True})()\nf = A()\n",
    "a module that is its own tests": "import sys, types\nsys.modules['tests'] = types.ModuleType('tests')\n"
    "sys.modules['tests'].f = lambda n: n + 1\n" + WRONG,
}  # fmt: skip
# These look outside their own process, which the kernel hides. Only Python limits the others.
OUTSIDE = ("tests found in memory", "tests found in open files", "tests found with the other processes")

# Each program appends to `gained` what it should not get. {pid} is a process of the user. {path} is her file in
# {folder}. {socket} is a datagram socket next to it, and {abstract} is a socket without a path.
HEAD = """
import ctypes, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
gained = []
def attempt(act, good=lambda got: True):
    try:
        got = act()
    except (OSError, RuntimeError, ValueError):
        return
    if good(got): gained.append(str(got))
def call(*numbers): return libc.syscall(*[ctypes.c_long(n) if isinstance(n, int) else n for n in numbers])
KEY, BPF, USERFAULTFD = (248, 321, 323) if os.uname().machine == "x86_64" else (217, 280, 282)
def no_error(got): return got != -1
"""
HARMS = {
    "fork": "attempt(lambda: os.fork() or os._exit(0))",
    "vfork": "attempt(libc.vfork, lambda got: got != -1 and (got or os._exit(0)))",
    "spawn": "attempt(lambda: os.posix_spawn('/bin/true', ['true'], {{}}))",
    "exec": "attempt(lambda: os.execv('/bin/true', ['true']))",
    "subprocess": "import subprocess\nattempt(lambda: subprocess.run(['true']))",
    "kill": "attempt(lambda: os.kill({pid}, 9))",
    "kill all": "attempt(lambda: os.kill(-1, 9))",
    "kill the group of the supervisor": "attempt(lambda: os.killpg(os.getpgid(os.getppid()), 9))",
    "kill the supervisor": "attempt(lambda: os.kill(os.getppid(), 9))",
    "signal a thread": "attempt(lambda: libc.tgkill({pid}, {pid}, 9), no_error)",
    "signal by pidfd": "attempt(lambda: signal.pidfd_send_signal(os.pidfd_open({pid}), 9))",
    "a signal by the owner of a pipe": "import fcntl\nr, w = os.pipe()\n"
    "attempt(lambda: fcntl.fcntl(r, 8, {pid}))\nattempt(lambda: fcntl.fcntl(r, 10, 9))\n"
    "attempt(lambda: fcntl.fcntl(r, 4, 0x2000))\nos.write(w, b'x')",
    "a signal by the owner of a socket": "import fcntl\na, b = socket.socketpair()\n"
    "attempt(lambda: fcntl.fcntl(a, 8, {pid}))\nattempt(lambda: fcntl.fcntl(a, 15, struct.pack('ii', 1, {pid})))\n"
    "attempt(lambda: fcntl.ioctl(a, 0x8901, struct.pack('i', {pid})))\nb.send(b'x')",
    "a lease": "import fcntl\nattempt(lambda: fcntl.fcntl(os.open(sys.executable, 0), 1024, 0))",
    "a lock": "import fcntl\nattempt(lambda: fcntl.flock(os.open(os.__file__, 0), 1))\n"
    "attempt(lambda: fcntl.lockf(os.open(os.__file__, 0), 1))",
    "a notification of a folder": "import fcntl\nattempt(lambda: fcntl.fcntl(os.open('/usr', 0), 1026, 1))",
    "to outlive": "attempt(lambda: libc.prctl(1, 0, 0, 0, 0), no_error)",
    "to be looked into": "attempt(lambda: libc.prctl(4, 1, 0, 0, 0), no_error)",
    "a reaper of others": "attempt(lambda: libc.prctl(36, 1, 0, 0, 0), no_error)",
    "a filter of its own": "attempt(lambda: libc.prctl(22, 1, 0, 0, 0), no_error)",
    "a session": "attempt(os.setsid)",
    "a group": "attempt(lambda: os.setpgid(0, 0))",
    "priority": "attempt(lambda: os.setpriority(os.PRIO_PROCESS, {pid}, 19))",
    "cores of another": "attempt(lambda: os.sched_setaffinity({pid}, [0]))",
    "limits of another": "import resource\nattempt(lambda: resource.prlimit({pid}, resource.RLIMIT_NOFILE))",
    "trace": "attempt(lambda: libc.ptrace(16, {pid}, None, None), no_error)",
    "memory of another": "attempt(lambda: libc.process_vm_readv({pid}, None, 0, None, 0, 0), no_error)",
    "shared memory": "attempt(lambda: libc.shmget(0x5151, 4096, 0o1600), no_error)",
    "semaphores": "attempt(lambda: libc.semget(0x5151, 1, 0o1600), no_error)",
    "a queue": "attempt(lambda: libc.msgget(0x5151, 0o1600), no_error)",
    "a POSIX queue": "attempt(lambda: libc.mq_open(b'/x', 0o102, 0o600, None), no_error)",
    "POSIX shared memory": "from multiprocessing import shared_memory\n"
    "attempt(lambda: shared_memory.SharedMemory('x', True, 10))",
    "memory as a file": "attempt(lambda: os.memfd_create('x'))",
    "a key": "attempt(lambda: call(KEY, b'user', b'x', b'x', 1, -5), no_error)",
    "a socket": "attempt(lambda: socket.socket())\nattempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n"
    "attempt(lambda: socket.socket(socket.AF_UNIX))\nattempt(lambda: socket.socket(16, 3, 0))",
    "a datagram from a pair": "def send(to):\n    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "    return a.sendto(b'harm', to)\nattempt(lambda: send({socket!r}))\nattempt(lambda: send({abstract!r}))",
    "a message from a pair": "def send(to):\n    a, b = socket.socketpair()\n"
    "    return a.sendto(b'harm', to)\nattempt(lambda: send({socket!r}))\n"
    "attempt(lambda: socket.socketpair()[0].sendmsg([b'x'], [], 0, {socket!r}))",
    "a seqpacket pair": "attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))",
    "a connection from a pair": "attempt(lambda: socket.socketpair()[0].connect({socket!r}))\n"
    "attempt(lambda: socket.socketpair()[0].bind({folder!r} + '/bound'))",
    "io_uring": "attempt(lambda: call(425, 8, ctypes.create_string_buffer(120)), no_error)",
    "bpf": "attempt(lambda: call(BPF, 0, 0, 0), no_error)",
    "userfaultfd": "attempt(lambda: call(USERFAULTFD, 0), no_error)",
    "inotify": "attempt(lambda: libc.inotify_init(), no_error)",
    "namespaces": "attempt(lambda: libc.unshare(0x10000000), no_error)",
    "a mount": "attempt(lambda: libc.mount(b'none', b'/tmp', b'tmpfs', 0, None), no_error)",
    "another root": "attempt(lambda: os.chroot('/'))",
    "the clock": "import time\nattempt(lambda: time.clock_settime(0, time.time()))",
    "the name of the host": "attempt(lambda: socket.sethostname('x'))",
    "to write a file": "attempt(lambda: open({path!r}, 'a').write('x'))\nattempt(lambda: open({path!r}, 'r+').write('x'))\n"
    "attempt(lambda: os.open({path!r}, os.O_RDONLY | os.O_TRUNC))\nattempt(lambda: os.truncate({path!r}, 0))",
    "to make a file": "for where in ({folder!r}, '.', '/tmp', '/dev/shm', os.path.expanduser('~')):\n"
    "    attempt(lambda: open(where + '/made', 'w'))\n    attempt(lambda: os.open(where, os.O_TMPFILE | os.O_RDWR))",
    "many files": "import tempfile\nattempt(tempfile.mkdtemp)\nattempt(lambda: tempfile.TemporaryFile())",
    "to move, link and remove": "attempt(lambda: os.rename({path!r}, {path!r} + '2'))\n"
    "attempt(lambda: os.link({path!r}, {path!r} + '3'))\nattempt(lambda: os.symlink('x', {path!r} + '4'))\n"
    "attempt(lambda: os.remove({path!r}))\nattempt(lambda: os.mkfifo({path!r} + '5'))",
    "deep folders": "for _ in range(1500):\n    attempt(lambda: (os.mkdir('d'), os.chdir('d')))",
    "modes, owners, times": "attempt(lambda: os.chmod({path!r}, 0))\nattempt(lambda: os.chown({path!r}, 0, 0))\n"
    "attempt(lambda: os.utime({path!r}, (9, 9)))",
    "attributes": "attempt(lambda: os.setxattr({path!r}, 'user.x', b'x'))",
    "flags of an inode": "import fcntl\nfor path in ({folder!r}, {path!r}, '/usr'):\n"
    "    attempt(lambda: fcntl.ioctl(os.open(path, 0), 0x40086602, struct.pack('l', 0x10)))",
    "modes by an open file": "attempt(lambda: os.fchmod(os.open({path!r}, 0), 0))",
    "a fanotify": "attempt(lambda: libc.fanotify_init(0, 0), no_error)",
    "a handle of a file": "attempt(lambda: libc.open_by_handle_at(-100, bytes(64), 0), no_error)",
    "the terminal": "import fcntl\nattempt(lambda: fcntl.ioctl(0, 0x5412, b'x'))",
    "locked memory": "attempt(lambda: libc.mlockall(1), no_error)",
    "a big pipe": "import fcntl\nattempt(lambda: fcntl.fcntl(os.pipe()[0], 1031, 1 << 20))",
    "privileges": "if libc.prctl(39, 0, 0, 0, 0) != 1: gained.append('new privileges')\n"
    "attempt(lambda: os.setuid(12345))\nattempt(lambda: os.setgroups([]))",
}  # fmt: skip


def every_harm(**values: object) -> tuple[str, tuple[str, ...]]:
    """Return a program that tries all of `HARMS`, and a test of what each gained."""
    tries = (f"gained = every[{number}] = []\n{harm.format(**values)}" for number, harm in enumerate(HARMS.values()))
    tests = tuple(f"assert every[{number}] == []" for number in range(len(HARMS)))
    return HEAD + "every = {}\n" + "\nos.closerange(5, 256)\n".join(tries), tests
