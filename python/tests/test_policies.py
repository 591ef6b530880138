"""Policies in Python make the choices, and their mistakes end their run."""

import runpy
from pathlib import Path

import pytest
from conftest import SIZE, steady

import flashloom as fl

EXAMPLES = Path(__file__).parent.parent / "examples"
WRITES = {"precondition": "aged", "size": SIZE}


def test_policy_equal_to_the_firmware_changes_nothing():
    def fifo(lines):
        return max(lines, key=lambda view: (view.age, -view.line))

    def named(write):
        return write.handle

    knobs = {"collection.victim": "fifo"}
    usual = fl.run("raw@fdp", "zipfwrite:ops=20000", knobs=knobs, **WRITES)
    ours = fl.run("raw@fdp", "zipfwrite:ops=20000", victim=fifo, placement=named, **WRITES)
    assert ours["gc"]["lines"] > 0
    different = {key for key in usual if usual[key] != ours[key]}
    # Names of policies, and time and memory of the process, may differ; results may not.
    assert different <= {"wall_time_s", "peak_rss_bytes", "configuration", "placement"}
    assert changed(usual["configuration"], ours["configuration"]) <= {"drive.collection.victim"}
    assert changed(usual["placement"], ours["placement"]) == {"policy"}


def changed(one, other):
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def test_placement_decides_the_handle():
    run = fl.run(
        "raw@fdp",
        "randwrite:ops=2000",
        size=SIZE,
        precondition="fresh",
        placement=lambda write: write.page % 2,
    )
    written = [handle["host_bytes"] for handle in run["handles"]]
    assert written[0] > 0 and written[1] > 0 and not any(written[2:])


@pytest.mark.parametrize(
    ("policies", "error", "said"),
    [
        ({"victim": lambda lines: 1 // 0}, ZeroDivisionError, "division"),
        ({"victim": lambda lines: None}, fl.Error, "expected one of the lines"),
        ({"placement": lambda write: write.handles}, fl.Error, "expected a handle from 0"),
        ({"placement": lambda write: -1}, fl.Error, "expected a handle from 0"),
        ({"placement": lambda write: 1 // 0}, ZeroDivisionError, "division"),
    ],
)
def test_policy_exception_ends_its_run(policies, error, said):
    with pytest.raises(error, match=said):
        fl.run("raw@fdp", "randwrite:ops=20000", **policies, **WRITES)


def test_the_example_is_short_and_runs(capsys):
    path = EXAMPLES / "policies.py"
    assert len(path.read_text().splitlines()) < 50
    runs = runpy.run_path(str(path), run_name="__main__")["runs"]
    assert [steady(run)["gc"]["lines"] > 0 for run in runs] == [True] * len(runs)
    told = capsys.readouterr().out
    assert all(f"{run['waf']['device']:.2f}" in told for run in runs)
