"""Programs on memory systems give the results of the command line."""

import json

import matplotlib
import pytest
from conftest import records, steady

import flashloom as fl

matplotlib.use("Agg")

WORKLOAD = "synthetic:threads=2,footprint=4MiB,section=20000"
DESIGNS = ["skybyte-full", "base-cssd", "dram-only"]
KNOBS = {"machine.os.switch": "1300ns", "precondition": "fresh"}


@pytest.fixture(scope="module")
def runs():
    return fl.memory(WORKLOAD, DESIGNS, seed=3, knobs=KNOBS, jobs=2)


def test_memory_runs_match_the_command_line(command_line, runs):
    knobs = [word for knob in KNOBS.items() for word in ("--set", "=".join(knob))]
    line = ["memory", ",".join(DESIGNS), "--workload", WORKLOAD, "--seed", "3", *knobs]
    assert [steady(run) for run in runs] == records(command_line(*line, "--json"))
    assert [run["design"] for run in runs] == DESIGNS
    assert runs[1]["speed_up"] == 1 and runs[0]["versus"] == "base-cssd"
    assert runs[0]["wall_time_s"] > 0


def test_single_and_all_designs_match_the_command_line(command_line):
    line = ["--workload", WORKLOAD, "--profile", "artifact", "--json"]
    alone = fl.memory(WORKLOAD, "skybyte-w", profile="artifact")
    assert [steady(alone[0])] == records(command_line("memory", "skybyte-w", *line))
    everything = fl.memory(WORKLOAD, profile="artifact")
    assert [steady(run) for run in everything] == records(command_line("memory", "--all", *line))
    assert [run.name for run in everything] == [design.name for design in fl.designs()]


def test_memory_frames_and_plots_match_the_records(runs):
    frame = runs.to_pandas()
    assert list(frame.columns[:5]) == ["design", "workload", "profile", "threads", "seed"]
    assert list(frame["amat.mean_ns"]) == [run["amat"]["mean_ns"] for run in runs]
    assert list(frame["speed_up"]) == [run["speed_up"] for run in runs]
    assert runs.to_arrow().column("design").to_pylist() == DESIGNS
    bars = runs.plot("amat.mean_ns")
    assert [bar.get_width() for bar in bars.patches] == list(frame["amat.mean_ns"])
    with pytest.raises(fl.Error, match="nonsense: no run has this number"):
        runs.plot("nonsense")


def test_documents_are_read_again(tmp_path, command_line, runs):
    path = tmp_path / "runs.json"
    path.write_text(runs.to_json())
    assert list(fl.load(path)) == list(runs)
    path.write_text(runs[0].to_json())
    assert list(fl.load(path)) == [runs[0]]
    line = ["memory", "dram-only", "--workload", WORKLOAD, "--json"]
    path.write_text(command_line(*line)[1])
    assert fl.load(path)[0]["design"] == "dram-only"


def test_memory_errors_match_the_command_line(command_line):
    for design, workload, more, ours in [
        ("skybyte-ful", WORKLOAD, [], {}),
        ("dram-only", "bsf", [], {}),
        ("dram-only", WORKLOAD, ["--set", "machine.nothing=1"], {"knobs": {"machine.nothing": 1}}),
        ("dram-only", WORKLOAD, ["--profile", "other"], {"profile": "other"}),
    ]:
        status, _, notes = command_line("memory", design, "--workload", workload, *more)
        assert status == 2
        with pytest.raises(fl.Error) as refused:
            fl.memory(workload, design, **ours)
        assert str(refused.value) in notes


def test_listener_is_called_and_can_stop_runs():
    long = "bfs:footprint=4MiB,section=3000000,threads=2"
    heard = []
    run = fl.memory(long, "dram-only", heard=heard.append)[0]
    # The calls cover all but the last million instructions, warm-up included.
    assert len(heard) > 1 and heard == sorted(heard)
    assert heard[-1] + (1 << 20) > run["instructions"] > heard[0] > 0

    class Enough(Exception):
        pass

    told = []

    def stop(executed):
        told.append(executed)
        if len(told) == 1:
            raise Enough

    with pytest.raises(Enough):
        fl.memory(long, ["dram-only", "base-cssd", "skybyte-full"], jobs=1, heard=stop)
    assert len(told) == 1


def test_programs_can_be_named():
    named = {program.name: program for program in fl.programs()}
    assert {"bfs", "ycsb"} <= set(named)
    assert "footprint" in [param.name for param in named["bfs"].params]
    assert json.loads(fl.memory(WORKLOAD, "dram-only").to_json())["runs"]


def test_memory_sweep_runs_in_processes_and_continues(tmp_path, command_line):
    plans = [fl.MemoryPlan(WORKLOAD, design, seed=3, knobs=KNOBS) for design in DESIGNS]
    out = tmp_path / "out"
    swept = fl.sweep(plans, workers=2, out=out)
    knobs = [word for knob in KNOBS.items() for word in ("--set", "=".join(knob))]
    for design, run in zip(DESIGNS, swept):
        line = ["memory", design, "--workload", WORKLOAD, "--seed", "3", *knobs]
        assert [steady(run)] == records(command_line(*line, "--json"))
    kept = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert len(kept) == len(DESIGNS) and list(fl.sweep(plans, out=out)) == list(swept)
    other = fl.MemoryPlan(WORKLOAD, DESIGNS[0], seed=4, knobs=KNOBS)
    assert steady(fl.sweep([other], workers=1, out=out)[0]) != steady(swept[0])
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    named = {design.name: design for design in fl.designs()}
    assert fl.MemoryPlan(WORKLOAD, named[DESIGNS[0]]) == fl.MemoryPlan(WORKLOAD, DESIGNS[0])
    with pytest.raises(fl.Error, match="one kind"):
        fl.sweep([plans[0], fl.Plan.make("raw@block", "randread:ops=9")])
    with pytest.raises(fl.Error, match="1 of 2 runs failed"):
        fl.sweep([plans[0], fl.MemoryPlan("bsf", "dram-only")], workers=1)
