"""``python -m meta_eval``, and the script of that name: imports as little as can be before Ctrl-C is in good hands."""

import gc
import os
import signal


def main() -> None:
    """Run the command line. An interrupt while its modules are still imported ends as one at work does: 130, a line."""
    # pydantic looks through all that is installed for plug-ins of its own, at every start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    # Docs and samples are hundreds of thousands of objects without a cycle, which would be searched for one in vain.
    gc.set_threshold(50_000, 20, 20)
    early = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell has set it aside
    if early:
        signal.signal(signal.SIGINT, _before_anything)
    from meta_eval.boundary.isolation import keep_stdout
    from meta_eval.boundary.process_guard import begin_exit

    keep_stdout()
    from meta_eval.cli import main as run

    if early:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except SystemExit as end:
        begin_exit(end.code)
        raise


def _before_anything(number: int, frame: object) -> None:  # noqa: ARG001 (what a handler is called with)
    # No exception: libraries that are half imported swallow it or make another of it.
    try:
        os.write(2, b"interrupted: nothing was begun\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    main()
