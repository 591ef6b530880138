"""Sweeps give the results of the command line, wherever they run, and can be continued."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SIZE, records, steady

import flashloom as fl
from flashloom.kept import digest


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two workers on this machine."""
    import ray

    # The workers import this module for the policy below.
    here = {"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}
    start = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
    try:
        ray.init(**start, runtime_env=here)
    except Exception:
        # Ray allows its processes half a minute to start, which a busy machine may exceed.
        ray.shutdown()
        ray.init(**start, runtime_env=here)
    yield ray
    ray.shutdown()


def test_processes_give_the_numbers_of_the_command_line(command_line, sweep_file):
    theirs = records(command_line("compare", str(sweep_file), "--json"))
    ours = fl.sweep(sweep_file, workers=2)
    assert len(ours) == 8 and [steady(run) for run in ours] == theirs
    assert ours[1]["label"] == "collection.victim=greedy seed=2"


def test_ray_gives_the_numbers_of_the_command_line(command_line, sweep_file, cluster):
    theirs = records(command_line("compare", str(sweep_file), "--json"))
    ours = fl.sweep(sweep_file, ray=True)
    assert [steady(run) for run in ours] == theirs
    assert cluster.cluster_resources()["CPU"] == 2


def test_tasks_of_ray_run_in_several_workers(cluster):
    """The cluster of the sweep above has several worker processes."""

    @cluster.remote(num_cpus=1)
    def process():
        time.sleep(0.5)
        return os.getpid()

    found = set(cluster.get([process.remote() for _ in range(2)]))
    assert len(found) == 2 and os.getpid() not in found


def test_plans_of_memory_run_on_ray(cluster):
    plans = [
        fl.MemoryPlan("synthetic:threads=2,footprint=4MiB,section=20000", design)
        for design in ("skybyte-full", "dram-only")
    ]
    over_tasks, over_processes = fl.sweep(plans, ray=True), fl.sweep(plans, workers=2)
    assert [steady(run) for run in over_tasks] == [steady(run) for run in over_processes]
    assert [run["design"] for run in over_tasks] == ["skybyte-full", "dram-only"]


def test_policy_is_sent_to_the_workers(cluster):
    plans = [
        fl.Plan.make(
            "raw@block", "randwrite:ops=3000", precondition="aged", size=SIZE, victim=choice
        )
        for choice in (None, emptiest)
    ]
    usual, ours = fl.sweep(plans, ray=True)
    assert steady(usual) == steady(ours)
    assert [steady(run) for run in fl.sweep(plans, workers=2)] == [steady(usual)] * 2


def emptiest(lines):
    return min(lines, key=lambda view: (view.valid, view.line))


def test_sweep_continues_after_an_interruption(tmp_path, sweep_file):
    plans = fl.Plan.from_file(sweep_file)
    out = tmp_path / "out"
    first = fl.sweep(plans[:3], workers=1, out=out)
    files = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert len(files) == 3 and {path.suffix for path in files} == {".json"}
    whole = fl.sweep(plans, workers=2, out=out)
    assert whole[:3].runs == first.runs and len(list(out.iterdir())) == 8
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    assert fl.sweep(plans, out=out).runs == whole.runs


def test_damaged_file_repeats_only_its_run(tmp_path, sweep_file, capsys):
    plans = fl.Plan.from_file(sweep_file)[:2]
    first = fl.sweep(plans, workers=1, out=tmp_path / "out")
    path = tmp_path / "out" / f"{digest(plans[1])}.json"
    for short in ("", path.read_text()[:200], json.dumps({"schema": "other/1"}), "[]"):
        path.write_text(short)
        again = fl.sweep(plans, workers=1, out=tmp_path / "out")
        assert again[0] == first[0] and steady(again[1]) == steady(first[1])
        assert "repeating the run" in capsys.readouterr().err


def test_digest_covers_everything_that_determines_a_run(tmp_path):
    trace = tmp_path / "a.csv"
    trace.write_text("0,W,0,8\n")
    make = lambda **more: fl.Plan.make("raw@block", str(trace), size=SIZE, **more)
    plans = [make(), make(seed=2), make(precondition="fresh"), make(victim=emptiest)]
    digests = [digest(plan) for plan in plans]
    assert len(set(digests)) == 4 and digest(make()) == digests[0]
    trace.write_text("0,W,8,8\n")
    assert digest(make()) != digests[0]


def test_failed_run_does_not_affect_others(tmp_path):
    good = fl.Plan.make("raw@block", "randread:ops=100", size=SIZE)
    bad = fl.Plan.make("raw@block", "randread:bs=x")
    with pytest.raises(fl.Error, match=r"1 of 2 runs failed; the first is Plan\(raw@block"):
        fl.sweep([bad, good], workers=2, out=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_progress_bar_is_shown_on_request(capsys, sweep_file):
    fl.sweep(fl.Plan.from_file(sweep_file)[:1], workers=1, progress=True)
    assert "1/1" in capsys.readouterr().err
    fl.sweep(fl.Plan.from_file(sweep_file)[:1], workers=1)
    assert capsys.readouterr().err == ""


INTERRUPTED = """
import sys
import flashloom as fl

if __name__ == "__main__":
    endless = fl.Plan.make("raw@block", "randread:ops=1000000000", size="128MiB")
    fl.sweep([*fl.Plan.from_file(sys.argv[1])[:1], endless], workers=2, out=sys.argv[2])
"""


def test_interrupt_ends_a_sweep_and_keeps_finished_runs(tmp_path, sweep_file, start):
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(INTERRUPTED)
    words = [sys.executable, str(script), str(sweep_file), str(out)]
    child = start(words, stderr=subprocess.PIPE)
    patience = time.monotonic() + 120
    while not list(out.glob("*.json")):
        assert child.poll() is None and time.monotonic() < patience
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, notes = child.communicate(timeout=120)
    assert child.returncode != 0 and "KeyboardInterrupt" in notes
    kept = [path.stem for path in out.glob("*.json")]
    assert kept == [digest(fl.Plan.from_file(sweep_file)[0])]
