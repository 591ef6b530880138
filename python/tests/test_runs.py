"""Runs and comparisons give the results of the command line."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import SIZE, STACKS, WORKLOAD, records, steady

import flashloom as fl


def test_run_matches_the_command_line(command_line):
    line = ["run", "ext4@fdp", "--workload", WORKLOAD, "--size", SIZE, "--seed", "7"]
    theirs = records(command_line(*line, "--set", "collection.victim=fifo", "--json"))
    drive = fl.Drive("fdp", size=SIZE, **{"collection.victim": "fifo"})
    workload = fl.Workload("varmail", files=50, threads=2, ops=400)
    assert workload == WORKLOAD
    ours = fl.run("ext4@fdp", workload, drive=drive, seed=7)
    assert [steady(ours)] == theirs
    assert ours["wall_time_s"] > 0 and ours["peak_rss_bytes"] > 1 << 20


def test_comparison_matches_the_command_line(command_line):
    line = ["compare", WORKLOAD, "--stacks", ",".join(STACKS), "--size", SIZE, "--json"]
    theirs = records(command_line(*line))
    ours = fl.compare(WORKLOAD, STACKS, size=SIZE, jobs=2)
    assert [steady(run) for run in ours] == theirs
    assert len(ours) == 4 and ours[3].name == "ext4@fdp aged"


def test_differences_exclude_the_interface():
    runs = fl.compare(WORKLOAD, ["ext4@block", "ext4@byte"], ["full"], size=SIZE)
    told = {d["field"]: [held["stacks"] for held in d["values"]] for d in runs.differences()}
    assert told["dram-kept"] == [["ext4@block"], ["ext4@byte"]]
    assert "drive.geometry.channels" not in told and "drive.interface" not in told


def test_a_record_names_its_placement():
    fdp = fl.run("raw@fdp", "hotcold:ops=500", size=SIZE)
    assert fdp["placement"] == {"policy": "own", "handles": 8, "used": 2}
    assert fl.run("raw@block", "hotcold:ops=500", size=SIZE)["placement"] is None


def test_shipped_workload_keeps_its_name(command_line):
    line = ["run", "ext4@block", "--workload", "sqlite:ops=300", "--json"]
    ours = fl.run("ext4@block", "sqlite:ops=300")
    assert [steady(ours)] == records(command_line(*line))
    assert ours["workload"].startswith("sqlite:ops=300")


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["ext4@nothing"], lambda: fl.run("ext4@nothing")),
        (["ext4"], lambda: fl.run("ext4")),
        (
            ["raw@block", "--workload", "randread:bs=x"],
            lambda: fl.run("raw@block", "randread:bs=x"),
        ),
        (
            ["raw@block", "--drive", "nowhere.toml"],
            lambda: fl.run("raw@block", drive="nowhere.toml"),
        ),
        (
            ["raw@block", "--workload", "varmail"],
            lambda: fl.run("raw@block", "varmail"),
        ),
        (
            ["ext4@block", "--workload", "sqlite:ops=x"],
            lambda: fl.run("ext4@block", "sqlite:ops=x"),
        ),
    ],
)
def test_error_matches_the_command_line(command_line, words, call):
    status, _, notes = command_line("run", *words)
    assert status == 2
    with pytest.raises(fl.Error) as ours:
        call()
    assert str(ours.value) in notes
    assert len(str(ours.value).splitlines()) == 1


def test_unknown_knobs_are_rejected():
    with pytest.raises(fl.Error, match="collection.victim=best: unknown variant"):
        fl.Drive("fdp", **{"collection.victim": "best"})
    with pytest.raises(fl.Error, match="host.cpu.cores=2: expected a setting of the drive"):
        fl.Drive("fdp", **{"host.cpu.cores": 2})
    with pytest.raises(fl.Error, match="expected a plan"):
        fl._native.run("{}")


def test_plans_are_values(tmp_path):
    import pickle

    plan = fl.Plan.make("raw@fdp", "zipfwrite:ops=100", size=SIZE, knobs={"host.cpu.cores": 2})
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.fields["host"]["cpu"]["cores"] == 2
    assert plan != fl.Plan.make("raw@fdp", "zipfwrite:ops=100", size=SIZE)
    assert repr(plan) == "Plan(raw@fdp zipfwrite:ops=100, aged, seed 1)"


def test_listener_is_called_and_can_stop_a_run():
    heard = []
    fl.run("raw@block", "randread:ops=200000", size=SIZE, heard=lambda *so: heard.append(so))
    assert heard == sorted(heard) and heard[0] == (0, 0)
    assert len(heard) > 2 and heard[-1][0] == 200000 and heard[-1][1] > 0

    class Enough(Exception):
        pass

    def stop(ops, _ns):
        assert ops < 10_000_000
        raise Enough

    with pytest.raises(Enough):
        fl.run("raw@block", "randread:ops=10000000", size=SIZE, heard=stop)


def test_other_threads_run_while_a_simulation_does():
    turns, done = 0, threading.Event()

    def simulate():
        fl.run("raw@block", "randread:ops=300000", size=SIZE)
        done.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 20


@pytest.mark.parametrize("call", ["fl.run('raw@block', W)", "fl.compare(W, ['raw@block'])"])
def test_an_interrupt_ends_a_run(call, start):
    script = (
        "import flashloom as fl, os, signal\n"
        "W = 'randread:ops=1000000000'\n"
        "print('ready', flush=True)\n"
        f"{call}\n"
    )
    words = [sys.executable, "-c", script]
    child = start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout.readline() == "ready\n"
    time.sleep(2)
    os.kill(child.pid, signal.SIGINT)
    _, notes = child.communicate(timeout=120)
    assert child.returncode != 0 and "KeyboardInterrupt" in notes


def test_lists_contain_known_names():
    assert "ext4@fdp" in [str(stack) for stack in fl.stacks()]
    assert "fdp" in [drive.name for drive in fl.drives()]
    named = {workload.name: workload for workload in fl.workloads()}
    assert "rocksdb" in named
    assert "files" in [param.name for param in named["varmail"].params]
    assert "waf.device" in [metric.column for metric in fl.metrics()]


def test_documents_are_read_again(tmp_path):
    run = fl.run("raw@block", "randread:ops=100", size=SIZE)
    for document in (run.to_json(), fl.Runs([run]).to_json()):
        path = tmp_path / "run.json"
        path.write_text(document)
        assert list(fl.load(path)) == [run]
    path.write_text(json.dumps({"schema": "other/1"}))
    with pytest.raises(fl.Error, match="expected a flashloom.run/1 document"):
        fl.load(path)
    with pytest.raises(fl.Error, match="nowhere"):
        fl.load(tmp_path / "nowhere")
