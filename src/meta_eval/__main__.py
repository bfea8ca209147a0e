"""``python -m meta_eval`` and the ``meta-eval`` script. Handles Ctrl-C before the heavy imports."""

import contextlib
import gc
import os
import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C during imports ends as it does later: exit code 130 and a line."""
    if sys.argv[1:] == ["--version"]:
        from meta_eval.base.version import __version__

        with contextlib.suppress(OSError, ValueError):  # then the command line says what is wrong
            sys.stdout.write(f"meta-eval {__version__}\n")
            sys.stdout.flush()
            return
    early = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if a shell ignores the signal
    if early:
        signal.signal(signal.SIGINT, _before_anything)
    from meta_eval.base.worker import NO_MEMORY, ran_out_of_memory, report_end, watch

    watch()
    try:
        _run(early=early)
    except SystemExit as end:
        report_end(end.code)
        raise
    except Exception as error:  # of an import
        if not ran_out_of_memory(error):
            raise
        os.write(2, f"error: {NO_MEMORY}\n".encode())
        report_end(2)


def _run(*, early: bool) -> None:
    # Otherwise pydantic searches all installed packages for plug-ins at every start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    os.environ.pop("SOURCE_DATE_EPOCH", None)  # numpy.f2py, which scipy imports, fails where it is no time
    # Docs and samples are hundreds of thousands of objects without cycles. Searching them would be a waste.
    gc.set_threshold(100_000, 20, 20)
    from meta_eval.base.interrupts import take_interrupts
    from meta_eval.base.one_thread import import_with_one_thread
    from meta_eval.cli import main as run

    import_with_one_thread()

    take_interrupts(ctrl_c=early)
    run()


def _before_anything(number: int, frame: object) -> None:  # noqa: ARG001 (what a handler is called with)
    # No exception: half-imported libraries may swallow or change it.
    try:
        os.write(2, b"interrupted: nothing was started\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    main()
