"""Shared fixtures of the tests: the command line, and runs that take well under a second."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

WORKLOAD = "varmail:files=50,threads=2,ops=400"
STACKS = ["ext4@block", "ext4@fdp"]
SIZE = "128MiB"

PLAN = f"""
stacks = ["ext4@block", "raw@fdp"]
workloads = ["{WORKLOAD}"]
size = "{SIZE}"
"""

SWEEP = """
stacks = ["raw@block", "raw@fdp"]
workloads = ["zipfwrite:ops=20000"]
preconditions = ["aged"]
size = "128MiB"
seeds = [1, 2]
[overrides]
"collection.victim" = ["greedy", "fifo"]
"""

# Fields of a record that differ from one run to the next.
UNSTEADY = ("wall_time_s", "peak_rss_bytes")


@pytest.fixture
def command_line(tmp_path):
    """Runs the program in a folder of its own; returns exit status, output and error output."""
    program = os.environ.get("FLASHLOOM")
    assert program, "expected the environment to name the program in FLASHLOOM"

    def answer(*words):
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return answer


def heed_interrupts():
    """Restores the default action of SIGINT in a new process, even if these tests ignore it.

    Background jobs of a shell script ignore it, and their children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start():
    """Starts programs that heed interrupts; afterwards kills those still running, with children."""
    children = []

    def begin(words, **streams):
        child = subprocess.Popen(
            words, preexec_fn=heed_interrupts, start_new_session=True, text=True, **streams
        )
        children.append(child)
        return child

    yield begin
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.fixture
def sweep_file(tmp_path):
    """A plan file of eight short runs."""
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def steady(record):
    """A record without the fields that differ from one run to the next."""
    return {key: value for key, value in record.items() if key not in UNSTEADY}


def records(answer):
    """The records that the command line printed."""
    status, text, notes = answer
    assert status == 0, notes
    document = json.loads(text)
    return [steady(record) for record in document.get("runs", [document])]
