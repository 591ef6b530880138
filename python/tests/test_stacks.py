"""Stacks are values with knobs, and are accepted in place of their names."""

import pickle

import pytest
from conftest import SIZE, WORKLOAD, records, steady

import flashloom as fl

OWN = {"collection.victim": "fifo", "page_cache.memory": "64MiB"}


def test_a_stack_knows_its_parts_and_its_knobs():
    stack = fl.Stack("ext4+writeback@fdp", size=SIZE, **OWN)
    assert (stack.host, stack.switches, stack.interface) == ("ext4", ["writeback"], "fdp")
    assert stack.knobs["collection.victim"] == "fifo"
    assert stack.knobs["page_cache.memory"] == 64 << 20
    assert stack.knobs["capacity"] >= 128 << 20
    usual = fl.Stack("ext4+writeback@fdp")
    assert usual.own == {} and "host.cpu.cores" in usual.knobs
    assert str(usual) == "ext4+writeback@fdp"
    assert repr(stack).startswith("Stack('ext4+writeback@fdp', size='128MiB', collection.victim=")


def test_every_listed_stack_exists():
    for named in fl.stacks():
        assert str(fl.Stack(named)) == named.name


def test_knobs_of_a_stack_can_be_set():
    stack = fl.Stack("ext4@fdp", size=SIZE)
    other = stack.setting(**OWN)
    assert other == fl.Stack("ext4@fdp", size=SIZE, **OWN) != stack
    assert other.setting(**{"collection.victim": "greedy"}).own["page_cache.memory"] == "64MiB"
    assert pickle.loads(pickle.dumps(other)) == other
    with pytest.raises(fl.Error, match="page_cache.depth=2: expected a setting"):
        stack.setting(**{"page_cache.depth": 2})
    with pytest.raises(fl.Error, match="nothing"):
        fl.Stack("ext4@nothing")


def test_every_listed_knob_can_be_set():
    for name in ("raw@zns", "ext4+remap@block", "bytefs@byte", "hyfim@ocssd"):
        stack = fl.Stack(name)
        for knob, value in stack.knobs.items():
            assert stack.setting(**{knob: value}) == stack, knob


def test_stack_run_matches_the_command_line(command_line):
    line = ["run", "ext4@fdp", "--workload", WORKLOAD, "--size", SIZE, "--json"]
    sets = [word for knob, value in OWN.items() for word in ("--set", f"{knob}={value}")]
    theirs = records(command_line(*line, *sets))
    stack = fl.Stack("ext4@fdp", size=SIZE, **OWN)
    assert [steady(stack.run(WORKLOAD))] == theirs
    assert [steady(fl.run(stack, WORKLOAD))] == theirs
    assert stack.plan(WORKLOAD) == fl.Plan.make("ext4@fdp", WORKLOAD, size=SIZE, knobs=OWN)


def test_run_choices_override_those_of_the_stack():
    stack = fl.Stack("raw@fdp", drive=fl.Drive("fdp", size="256MiB"), **{"host.cpu.cores": 2})
    plan = stack.plan("randwrite:ops=10", size=SIZE, knobs={"host.cpu.cores": 4})
    drive = fl.Drive("fdp", size=SIZE)
    knobs = {"host.cpu.cores": 4}
    assert plan == fl.Plan.make("raw@fdp", "randwrite:ops=10", drive=drive, knobs=knobs)


def test_drive_of_a_run_overrides_the_stack():
    own = {"collection.victim": "fifo", "host.cpu.cores": 2}
    stack = fl.Stack("raw@fdp", size="256MiB", **own)
    drive = fl.Drive("fdp", size=SIZE, **{"collection.victim": "greedy"})
    plan = stack.plan("randwrite:ops=10", drive=drive)
    knobs = {"host.cpu.cores": 2}
    assert plan == fl.Plan.make("raw@fdp", "randwrite:ops=10", drive=drive, knobs=knobs)


def test_a_stack_is_a_value():
    stack = fl.Stack("raw@fdp", size=SIZE, **{"host.cpu.cores": 2})
    stack.own["host.cpu.cores"] = stack.knobs["host.cpu.cores"] = 4
    assert stack.own["host.cpu.cores"] == stack.knobs["host.cpu.cores"] == 2
    with pytest.raises(TypeError, match="the name of a stack"):
        fl.Stack(stack)


def test_stacks_with_knobs_of_their_own_are_compared():
    own = fl.Stack("ext4@fdp", **OWN)
    plans = fl.Plan.compared(WORKLOAD, ["ext4@fdp", own], ["full", "aged"], size=SIZE)
    usual = fl.Plan.compared(WORKLOAD, ["ext4@fdp"], ["full", "aged"], size=SIZE)
    assert plans[0::2] == usual
    fifo = fl.Plan.compared(WORKLOAD, ["ext4@fdp"], ["full", "aged"], size=SIZE, knobs=OWN)
    assert plans[1::2] == fifo != usual
