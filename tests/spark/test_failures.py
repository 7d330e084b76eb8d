"""What a user is told of a query that Spark has ended. The texts are Spark's own, shortened."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkValueError, StreamingQueryException

from sash.errors import PlanError, ResourceError, SourceError
from sash.spark.failures import translate

FAILED = """[STREAM_FAILED] Query [id = dd4f, runId = b498] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: An \
exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/site-packages/py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o614.collectToPython.
: {said}
	at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: {cause}
	... 1 more

 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: joined [id = dd4f, runId = b498]
Logical Plan: java.io.IOError: is not what happened
"""
ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times"


def told(said: str = ABORTED, cause: str = "java.io.EOFException") -> str:
    error = translate(StreamingQueryException(FAILED.format(said=said, cause=cause)))
    assert isinstance(error, ResourceError)
    assert "\n" not in str(error)
    assert "Py4JJavaError" not in str(error)
    return str(error)


def test_a_worker_that_died() -> None:
    crashed = f"{ABORTED}: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider"
    assert told(crashed).startswith("a Python worker of Spark died again and again, as if it were killed for want of ")


def test_a_worker_that_did_not_start() -> None:
    assert "did not start within ten seconds" in told(cause="SparkException: Python worker failed to connect back.")


@pytest.mark.parametrize(
    "cause", ["java.io.IOException: No space left on device", "OSError: [Errno 28] No space left on device: '/x'"]
)
def test_a_full_disk(cause: str) -> None:
    assert told(cause=cause).startswith("a disk is full: ")


def test_memory_of_the_jvm() -> None:
    assert "raise `spark.driver.memory`" in told(cause="java.lang.OutOfMemoryError: Java heap space")


def test_a_file_of_sparks_that_is_gone() -> None:
    cause = "java.io.FileNotFoundException: File file:/out/q.checkpoint/spark/offsets/3 does not exist"
    assert told(cause=cause).startswith("`/out/q.checkpoint/spark/offsets/3` is gone, which Spark needs; put it back")


def test_a_file_that_does_not_fit_its_checksum() -> None:
    """A run that follows its input must not try again."""
    cause = "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/out/q.checkpoint/spark/offsets/3 at 0 exp: 1"
    error = translate(StreamingQueryException(FAILED.format(said=ABORTED, cause=cause)))
    assert isinstance(error, SourceError)
    assert str(error) == (
        "`/out/q.checkpoint/spark/offsets/3` is damaged, or its `.crc` is: they do not fit; restore both from a "
        "backup, or, if they are of a checkpoint, run with --fresh to start afresh"
    )


def test_another_run_on_the_same_checkpoint() -> None:
    assert told(cause="java.lang.IllegalStateException: Concurrent update to the log. Multiple streaming jobs detected")


def test_anything_else_is_told_by_its_innermost_cause() -> None:
    assert told(cause="java.lang.ArithmeticException: over") == "Spark stopped the query: ArithmeticException: over"
    assert told(cause="").startswith("Spark stopped the query: SparkException: Job aborted due to stage failure: Task")


def test_what_sash_has_raised_in_a_worker_comes_out_as_it_was() -> None:
    said = (
        "org.apache.spark.api.python.PythonException: Traceback:\nsash.errors.SourceError: file `x` is bad; mend it\n"
    )
    failure = StreamingQueryException(FAILED.format(said=said, cause="java.io.EOFException"))
    assert repr(translate(failure)) == repr(SourceError("file `x` is bad; mend it"))
    assert repr(translate(PlanError("no"))) == repr(PlanError("no"))


@pytest.mark.parametrize("failure", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("nobody")])
def test_a_jvm_that_died(failure: Exception) -> None:
    assert str(translate(failure)).startswith("Spark's JVM has died, as if it were killed, or ran out of memory; ")


def test_so_is_one_whose_death_pyspark_calls_something_else() -> None:
    failure = PySparkValueError(errorClass="CANNOT_PARSE_DATATYPE", messageParameters={"msg": "calling o248.json"})
    failure.__context__ = Py4JError("An error occurred while calling o248.json")
    assert str(translate(failure)).startswith("Spark's JVM has died, as if it were killed")


def test_a_bug_stays_one() -> None:
    with pytest.raises(ZeroDivisionError):
        translate(ZeroDivisionError())
