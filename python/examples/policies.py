"""Two policies of one's own: which line is reclaimed next, and which handle a write goes
through.

Both are pure functions of what they are shown. A call of Python for each choice takes its
time, above all for a long list of lines: the same in Rust, which is in
flashloom/examples/policies.rs, gives the same numbers sooner.
"""

import flashloom as fl

# Programs of a drive after which data are not young any more.
YOUNG = 128

WORKLOAD = "zipfwrite:ops=60000"
CHOICES = {"precondition": "aged", "size": "256MiB"}


def windowed(lines: list[fl.Line]) -> fl.Line:
    """The emptiest of the older half: what was written just now may still empty itself."""
    oldest = sorted(lines, key=lambda view: (-view.age, view.line))
    window = oldest[: (len(lines) + 1) // 2]
    return min(window, key=lambda view: (view.valid, view.line))


def by_age(write: fl.Write) -> int:
    """What replaces young data will be replaced soon, and keeps apart from all else."""
    return int(write.age is None or write.age >= YOUNG)


if __name__ == "__main__":
    policies = {
        "the firmware's own": {},
        "windowed": {"victim": windowed},
        "by age": {"placement": by_age},
        "both": {"victim": windowed, "placement": by_age},
    }
    runs = fl.Runs(fl.run("raw@fdp", WORKLOAD, **own, **CHOICES) for own in policies.values())
    for name, run in zip(policies, runs):
        waf, moved = run["waf"]["device"], run["gc"]["moved_bytes"] >> 20
        print(f"{name:20}{waf:.2f} programmed for each written, {moved} MiB moved")
