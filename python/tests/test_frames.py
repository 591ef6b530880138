"""Frames and plots hold the numbers of the records."""

import sys

import matplotlib
import pytest
from conftest import SIZE, STACKS, WORKLOAD

import flashloom as fl

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def runs():
    return fl.compare(WORKLOAD, STACKS, ["full"], size=SIZE)


def test_a_frame_has_a_row_for_each_run(runs):
    frame = runs.to_pandas()
    assert list(frame["stack"]) == STACKS
    assert list(frame["latency_ns.p99"]) == [run["latency_ns"]["p99"] for run in runs]
    assert frame["waf.device"].dtype == float and frame["seed"].dtype == int
    # No stack here remaps addresses.
    assert not [column for column in frame if column.startswith("remap.")]


def test_an_arrow_table_is_the_same(runs):
    table = runs.to_arrow()
    assert table.to_pandas().equals(runs.to_pandas())
    assert str(table.schema.field("nand.program_pages").type) == "int64"


def test_a_timeline_is_a_frame():
    run = fl.run("raw@block", "randwrite:ops=20000", size=SIZE, timeline="1ms")
    frame = run.timeline()
    assert list(frame["at_ns"]) == [sample["at_ns"] for sample in run["timeline"]]
    assert frame["ops"].sum() == run["ops"] and "programmed_bytes.host" in frame


def test_bar_widths_are_the_metric(runs):
    p99 = [run["latency_ns"]["p99"] for run in runs]
    for name in ("latency_ns.p99", "p99"):
        axes = runs.plot(name)
        assert [bar.get_width() for bar in axes.patches] == p99
    assert axes.get_xlabel() == "p99 [ns]"
    assert runs.plot("WAF device").get_xlabel() == "WAF device [factor]"


def test_lines_are_distributions_and_series(runs):
    lines = runs.plot_latency().lines
    assert [line.get_label() for line in lines] == [run.name for run in runs]
    shares = list(lines[0].get_ydata())
    assert shares == sorted(shares, reverse=True) and 0 < shares[-1] < shares[0] <= 1
    axes = runs.plot_timeline("waf")
    samples = [sample["waf"] for sample in runs[0]["timeline"]]
    assert list(axes.lines[0].get_ydata()) == samples


def test_impossible_plots_raise_an_error(runs):
    with pytest.raises(fl.Error, match="nonsense: no metric is called so"):
        runs.plot("nonsense")
    with pytest.raises(fl.Error, match="remap.log_bytes: no run has this number"):
        runs.plot("remap.log_bytes")
    with pytest.raises(fl.Error, match="nonsense: no series"):
        runs.plot_timeline("nonsense")


@pytest.mark.parametrize(
    ("package", "name", "call"),
    [
        ("pandas", "pandas", lambda runs: runs.to_pandas()),
        ("pyarrow", "arrow", lambda runs: runs.to_arrow()),
        ("matplotlib", "plot", lambda runs: runs.plot()),
        ("tqdm", "progress", lambda runs: fl.sweep([], progress=True)),
    ],
)
def test_missing_package_is_named_with_its_remedy(monkeypatch, runs, package, name, call):
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(fl.Error, match=rf"needs {package}: pip install 'flashloom\[{name}\]'"):
        call(runs)
