"""A shop's bot: each version answers the same forty questions. Prints a study as CSV: python bot.py VERSION VERSION."""

from __future__ import annotations

import csv
import sys

ITEMS = ("bicycle", "kettle", "lantern", "blanket", "compass", "teapot", "camera", "jacket", "guitar", "mirror")
CITIES = ("Lisbon", "Bergen", "Vienna", "Dublin")


def answer(version: str, item: str, city: str) -> str:
    """What a version says about an order."""
    if version == "v1":
        return f"Your {item} left our warehouse on Tuesday and should arrive in {city} on Friday."
    if version == "v2":
        return f"Thanks for asking! Your {item} is on its way to {city}."
    also = "" if item in ITEMS[::4] else " The carrier sends a message before delivery."
    return f"Your {item} left our warehouse on Tuesday, for {city} on Friday.{also}"


rows = csv.writer(sys.stdout)
rows.writerow(("task", "agent", "prompt", "text"))
for city in CITIES:
    for item in ITEMS:
        for version in sys.argv[1:]:
            prompt = f"I live in {city}. Where is my {item}?"
            rows.writerow((f"{item}-{city}", version, prompt, answer(version, item, city)))
