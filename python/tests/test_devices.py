"""Stepped drives give the records of runs, and refuse bad calls in a sentence."""

import pathlib
import threading

import pytest
from conftest import records, steady

import flashloom as fl

SIZE = "64MiB"


def trace(path):
    """Writes a trace in MQSim's form, and returns its requests."""
    requests, random, time = [], 1, 0
    for _ in range(1000):
        random = (random * 6364136223846793005 + 1) % (1 << 64)
        place, op = (random >> 33) % 16000, ("write", "read")[(random >> 50) % 2]
        requests.append((time, op, place * 8, 8))
        time += (random >> 40) % 40000
    lines = (f"{at} 0 {first} {count} {int(op == 'read')}\n" for at, op, first, count in requests)
    path.write_text("".join(lines))
    return requests


def test_stepped_drive_gives_the_record_of_the_command_line(command_line, tmp_path):
    path = tmp_path / "t.trace"
    device = fl.Device("raw@block", size=SIZE, precondition="aged", seed=3)
    for request in trace(path):
        device.submit(*request)
    while device.in_flight:
        device.step()
    ends = device.completions()
    assert len(ends) == 1000 and all(end.error is None for end in ends)
    line = ["run", "raw@block", "--workload", str(path), "--size", SIZE, "--seed", "3"]
    answer = command_line(*line, "--precondition", "aged", "--json")
    record = device.finish(str(path))
    assert [steady(record)] == records(answer)
    assert device.counters()["waf"] == record["waf"]["device"]
    assert max(end.latency for end in ends) == record["latency_ns"]["max"]


def test_two_drives_share_a_clock_and_forks_do_not():
    block = fl.Device("raw@block", size=SIZE)
    zoned = block.beside("raw@zns", size="256MiB", precondition="fresh")
    block.submit(5000, "write", 0, 8, origin="tenant")
    zoned.submit(7000, "append", 0, 8)
    assert zoned.next_event() == 0
    block.advance(1_000_000)
    assert (block.now, zoned.now) == (1_000_000, 1_000_000)
    (written,), (appended,) = block.completions(), zoned.completions()
    assert (written.submitted, written.sector) == (5000, None)
    assert (appended.submitted, appended.sector, appended.error) == (7000, 0, None)
    copy = block.fork()
    assert (copy.now, copy.in_flight, copy.sectors) == (0, 0, block.sectors)
    copy.submit(0, "deallocate", 0, 8)
    copy.advance(1_000_000)
    assert (copy.counters()["trim_bytes"], block.counters()["trim_bytes"]) == (4096, 0)
    assert block.finish()["host"]["by_origin"]["tenant"]["write"]["total"] == 4096


def test_coroutines_run_on_the_clock_of_the_drive():
    def go():
        device = fl.Device("raw@block", size=SIZE, precondition="full")
        log = []

        async def reader(number):
            for turn in range(20):
                done = await device.command("read", (number * 20 + turn) * 8, 8)
                log.append((device.now, number, done.latency))
                await device.sleep(1000 * number)
            return number

        async def clock():
            await device.sleep(50_000)
            log.append((device.now, "clock", 0))

        assert device.run(reader(0), reader(1), reader(2), clock()) == [0, 1, 2, None]
        assert device.counters()["host_read_bytes"] == 60 * 4096
        return log

    log = go()
    assert log == go() and log == sorted(log, key=lambda entry: entry[0])
    assert (50_000, "clock", 0) in log


def test_failing_coroutines_close_the_others():
    device = fl.Device("raw@block", size=SIZE)
    closed = []

    async def waits():
        try:
            await device.sleep(10**9)
        finally:
            closed.append(True)

    async def fails():
        await device.command("read", 0, 8)
        raise KeyError("it fails")

    with pytest.raises(KeyError):
        device.run(waits(), fails())
    assert closed == [True]


def test_bad_calls_are_refused_in_a_sentence():
    device = fl.Device("raw@block", size=SIZE)
    device.advance(1000)
    for sentence, call in [
        ("time 9: expected at least", lambda: device.submit(9, "read", 0, 8)),
        ("time 9: expected at least", lambda: device.advance(9)),
        ("reach past the end", lambda: device.submit(1000, "read", device.sectors, 8)),
        ("0 sectors given", lambda: device.submit(1000, "read")),
        ("expected a command: deallocate", lambda: device.submit(1000, "erase", 0, 8)),
        ("append: expected a drive with zones", lambda: device.submit(1000, "append", 0, 8)),
        ("out of range", lambda: device.submit(1000, "read", -1, 8)),
        ("out of range", lambda: device.advance(1 << 70)),
        ("expected a stack with the host raw", lambda: fl.Device("ext4@block", size=SIZE)),
        ("settings|setting", lambda: fl.Device("raw@block", knobs={"no.such": 1})),
    ]:
        with pytest.raises(fl.Error, match=sentence):
            call()
    device.submit(1000, "read", 0, 8)
    with pytest.raises(fl.Error, match="fork: 1 commands are in flight"):
        device.fork()
    with pytest.raises(TypeError, match="expected no choices beside a plan"):
        fl.Device(fl.Plan.make("raw@block", size=SIZE), seed=3)
    caught = []

    def elsewhere():
        with pytest.raises(fl.Error, match="expected the thread"):
            device.step()
        caught.append(True)

    on_a_thread(elsewhere)
    assert caught == [True]


def on_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_device_may_be_dropped_by_another_thread():
    held = [fl.Device("raw@block", size=SIZE)]
    on_a_thread(held.clear)
    assert held == []
    made = []
    on_a_thread(lambda: made.append(fl.Device("raw@block", size=SIZE)))
    with pytest.raises(fl.Error, match="expected the thread"):
        made[0].step()
    made.clear()
    assert fl.Device("raw@block", size=SIZE).next_event() == 0


def test_policy_that_calls_its_drive_is_refused():
    def meddles(lines):
        device.step()
        return lines[0]

    device = fl.Device("raw@block", size=SIZE, precondition="aged", victim=meddles)
    with pytest.raises(fl.Error, match="expected no call of a drive by a policy of it"):
        device.run(writer(device))


async def writer(device):
    for turn in range(20_000):
        await device.command("write", turn * 3 * 8 % device.sectors // 8 * 8, 8)


def test_example_of_the_book_runs():
    page = pathlib.Path(__file__).parents[2] / "docs/book/src/library.md"
    example = page.read_text().split("```python\n")[1].split("```")[0]
    exec(compile(example, "library.md", "exec"), {})


def test_exception_of_a_policy_ends_the_call():
    def fails(lines):
        raise KeyError("no victim")

    device = fl.Device("raw@block", size=SIZE, precondition="aged", victim=fails)
    with pytest.raises(KeyError, match="no victim"):
        device.run(writer(device))
