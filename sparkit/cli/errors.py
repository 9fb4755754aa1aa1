"""A user's mistake ends in one line on stderr and exit code 2, never in a traceback.

The library raises `ValueError`, `LookupError` and `OSError` for what a person can mend; their text is the line.
Everything else (`KeyError` and `IndexError` among them) is our mistake and keeps its traceback.
`SPARKIT_DEBUG=1` shows the traceback of all of them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MISTAKES = (ValueError, LookupError, OSError)
OURS = (KeyError, IndexError, BrokenPipeError)
EXIT_MISTAKE = 2
EXIT_DIED = 3  # a process that worked for us: not the user's doing, and no answer either
EXIT_INTERRUPTED = 130


@contextmanager
def spoken() -> Iterator[None]:
    """Turn the mistakes raised inside into `error: ...` and exit code 2; Ctrl-C into exit code 130."""
    try:
        yield
    except OURS:
        raise
    except MISTAKES as error:
        if os.environ.get("SPARKIT_DEBUG") == "1":
            raise
        print(f"error: {sentence(error)}", file=sys.stderr)
        raise SystemExit(EXIT_MISTAKE) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None


def sentence(error: BaseException) -> str:
    """The error as one line; operating-system errors get their file's name."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
