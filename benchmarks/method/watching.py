"""How often ``goldless watch`` alarms on quiet streams, and how soon it finds a planted change.

    python benchmarks/method/watching.py [--streams 200]

Prints Markdown tables. An item (anchor) has a mean of its own, normal with standard deviation 1; values have noise with
the given standard deviation, and may be rounded to five levels. Items are asked four times on the first occasion, then
once. "rolling z" compares the mean over items with its values on all earlier occasions, at 5 % each time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from goldless.apps.watch.change_evidence import change_evidence

Shift = Callable[[int], float]
OCCASIONS = 200


def stream(
    random: np.random.Generator, occasions: int, items: int, noise: float, *, levels: bool, at: int, shift: Shift
) -> list[dict[str, list[float]]]:
    """Values on each occasion; from occasion ``at`` on, items are shifted."""
    means = random.normal(size=items)
    made = []
    for number in range(occasions):
        values = {}
        for item in range(items):
            drawn = means[item] + noise * random.normal(size=4 if number == 0 else 1) + shift(item) * (number >= at)
            values[str(item)] = (np.clip(np.rint(drawn + 3), 1, 5) if levels else drawn).tolist()
        made.append(values)
    return made


def rolling_z(made: list[dict[str, list[float]]]) -> bool:
    """Whether a z-test of the newest mean ever alarms, from the sixth occasion on."""
    means = np.array([np.mean([values[-1] for values in one.values()]) for one in made])
    return any(abs(means[t] - means[:t].mean()) > 1.96 * means[:t].std(ddof=1) for t in range(5, len(means)))


def main(streams: int) -> None:
    """Print both tables."""
    random = np.random.default_rng(1)
    print("| quiet: noise | items | occasions | alarms, alpha 5 % | rolling z |\n| --- | --- | --- | --- | --- |")
    for name, noise, levels in (("1", 1.0, False), ("0.7, five levels", 0.7, True), ("none", 0.0, False)):
        quiet = [
            stream(random, OCCASIONS, 8, noise, levels=levels, at=10**6, shift=lambda _: 0.0) for _ in range(streams)
        ]
        alarms = np.mean([change_evidence(one, seed=seed)[-1].alarm for seed, one in enumerate(quiet)])
        rolled = f"{100 * np.mean([rolling_z(one) for one in quiet]):.0f} %" if noise else "-"
        print(f"| {name} | 8 | {OCCASIONS} | {100 * alarms:.1f} % | {rolled} |", flush=True)
    print("\n| change | noise | items | after occasion | found within 20 | median occasions |\n| --- " * 1, end="")
    print("| --- | --- | --- | --- | --- |")
    settings: tuple[tuple[str, float, bool, int, Shift, int], ...] = (
        ("up by 1", 1.0, False, 20, lambda _: 1.0, 10),
        ("up by 0.5", 1.0, False, 20, lambda _: 0.5, 10),
        ("up by 1", 1.0, False, 20, lambda _: 1.0, 50),
        ("down by 0.7", 0.7, True, 20, lambda _: -0.7, 10),
        ("half up, half down by 0.1", 0.0, False, 20, lambda item: 0.1 * (-1) ** item, 1),
        ("half up, half down by 0.1", 0.0, False, 8, lambda item: 0.1 * (-1) ** item, 1),
    )
    for name, noise, levels, items, shift, at in settings:
        delays = []
        for seed in range(streams // 4):
            made = stream(random, at + 20, items, noise, levels=levels, at=at, shift=shift)
            found = change_evidence(made, seed=seed)
            delays.append(next((t - at + 1 for t, one in enumerate(found) if one.alarm and t >= at), None))
        known = [delay for delay in delays if delay is not None]
        share = f"{100 * len(known) / len(delays):.0f} %"
        noted = f"{noise:g}{', five levels' * levels}"
        print(f"| {name} | {noted} | {items} | {at} | {share} | {np.median(known):.0f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    main(parser.parse_args().streams)
