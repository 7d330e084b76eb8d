"""What to tell a user of a query that Spark has ended: one sentence with what happened and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException

from sash import errors
from sash.errors import ResourceError, SashError, SourceError, describe_os_error
from sash.spark.portable import MISSING_MODULE

GO_ON = "run the same command again to go on"
_RAISED = r"sash\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\s+at |\n\tat |\nTraceback| SQLSTATE|$)"
_NO_ANSWER = "Python worker failed to connect back"
_KNOWN = {
    _NO_ANSWER: "a Python worker of Spark did not start within ten seconds, as the machine is busy; "
    f"{GO_ON}, or give Spark fewer cores, such as --master 'local[1]'",
    r"Python worker exited unexpectedly|Python worker .*crashed": "a Python worker of Spark died again and again, "
    "as if it were killed for want of memory; lower `spark.sash.memory`, give Spark fewer cores, such as "
    f"--master 'local[1]', and {GO_ON}",
    "No space left on device|Disk quota exceeded": "a disk is full: that of the outputs and checkpoints, or that of "
    f"temporary files (`spark.local.dir`, /tmp, /dev/shm); make room, and {GO_ON}",
    "OutOfMemoryError": f"Spark's JVM ran out of memory; raise `spark.driver.memory`, and {GO_ON}",
    "Concurrent update to the log|ConcurrentModificationException": "another run writes to the same checkpoint; "
    "let only one run at a time, or give each an output directory of its own",
}
_CHECKSUM = r"Checksum error: (?:file:(?://)?)?(\S+)"
_GONE = r"FileNotFoundException: (?:File )?(?:file:)?(\S+?)(?: does not exist| \(No such file)"


def is_start_failure(failure: StreamingQueryException) -> bool:
    """Whether a worker did not start in time: the query has done nothing, and may do well when it is started again."""
    return _NO_ANSWER in str(failure)


def translate(failure: BaseException) -> SashError:
    """The error that Sash raised on purpose, in a worker or here, or the gist of what Spark says."""
    if isinstance(failure, SashError):
        return failure
    if not isinstance(failure, StreamingQueryException):
        return _translate_other(failure)
    text = str(failure).partition("\n=== Streaming Query ===")[0]
    raised = re.search(_RAISED, text, re.DOTALL)
    if raised and hasattr(errors, raised[1]):
        kind: Callable[[str], SashError] = getattr(errors, raised[1])
        return kind(raised[2].strip())
    missing = re.search(rf"{MISSING_MODULE}.*", text)
    if missing:
        return ResourceError(missing[0])
    gone = re.search(_GONE, text)
    if gone:
        return ResourceError(f"`{gone[1]}` is gone, which Spark needs; put it back, and {GO_ON}")
    damage = _find_damage(text)
    if damage:
        return damage
    known = next((sentence for pattern, sentence in _KNOWN.items() if re.search(pattern, text)), None)
    return ResourceError(known or f"Spark stopped the query: {_gist(text)}")


def describe_java_error(error: Py4JJavaError) -> str:
    """What the JVM says, in one line."""
    return _java_text(error).partition("\n")[0].rpartition("Exception: ")[2]


def _java_text(error: Py4JJavaError) -> str:
    return str(error.java_exception)


def _find_damage(text: str) -> SourceError | None:
    """Of a file that does not fit the sum that Hadoop keeps beside it: `.NAME.crc`. Trying again does not help."""
    found = re.search(_CHECKSUM, text)
    if found is None:
        return None
    return SourceError(
        f"`{found[1]}` is damaged, or its `.crc` is: they do not fit; restore both from a backup, or, if they are of a "
        "checkpoint, run with --fresh to start afresh"
    )


def _translate_other(failure: BaseException) -> SashError:
    if isinstance(failure, Py4JJavaError):
        return _find_damage(_java_text(failure)) or ResourceError(
            f"Spark stopped the query: {describe_java_error(failure)}"
        )
    if isinstance(failure, PySparkException) and not _is_cut_off(failure.__context__):
        return ResourceError(f"Spark stopped the query: {str(failure).partition(chr(10))[0]}")
    if isinstance(failure, PySparkException) or _is_cut_off(failure):
        return ResourceError(
            "Spark's JVM has died, as if it were killed, or ran out of memory; raise or lower `spark.driver.memory`, "
            f"and {GO_ON}"
        )
    if isinstance(failure, OSError):
        return describe_os_error(failure)
    raise failure


def _is_cut_off(failure: BaseException | None) -> bool:
    """Whether there is no JVM any more that answers. PySpark may have an error of its own around it."""
    return isinstance(failure, Py4JError | ConnectionError | EOFError) and not isinstance(failure, Py4JJavaError)


def _gist(text: str) -> str:
    """The innermost exception that is told of, in one line, without the classes of the messengers."""
    said = re.findall(r"^(?:Caused by: |: )?([\w.$]*(?:Exception|Error)): (.+)$", text, re.MULTILINE)
    told = [f"{name.rpartition('.')[2]}: {what}" for name, what in said if not name.startswith("py4j.")]
    first = text.partition("\n")[0]
    return (told[-1] if told else re.sub(r"^.*terminated with exception: ", "", first)).strip()
