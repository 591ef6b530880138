"""Two custom policies: the choice of the next line to reclaim, and of the handle of a write.

Both are pure functions of their views. Calling Python for each choice is slow, above all for a
long list of lines: the Rust version in flashloom/examples/policies.rs gives the same numbers
sooner.
"""

import flashloom as fl

# Age in programs of the drive from which data no longer count as young.
YOUNG = 128

WORKLOAD = "zipfwrite:ops=60000"
CHOICES = {"precondition": "aged", "size": "256MiB"}


def windowed(lines: list[fl.Line]) -> fl.Line:
    """The emptiest line of the older half: pages of young lines may still become invalid."""
    oldest = sorted(lines, key=lambda view: (-view.age, view.line))
    window = oldest[: (len(lines) + 1) // 2]
    return min(window, key=lambda view: (view.valid, view.line))


def by_age(write: fl.Write) -> int:
    """A handle of its own for writes that replace young data: they will be replaced soon."""
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
