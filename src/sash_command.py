"""The command `sash`, from its first moment on: a signal that comes while Sash is being loaded ends it with one line.

It stands beside the package `sash`: what is in there begins when all of it has been loaded, after a second or two.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Loads Sash and runs the command."""
    heard = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, _end) for each in heard}
    from sash.cli.main import main as run

    for each, handler in before.items():
        signal.signal(each, handler)
    run()


def _end(number: int, frame: FrameType | None) -> None:
    """At once: nothing has been done, and an exception in the middle of an import is not always passed on."""
    os.write(2, b"stopped\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
