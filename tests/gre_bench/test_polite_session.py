"""Requests keep their distance. How a session waits and gives up is tested with the venue that uses it."""

from __future__ import annotations

from goldless.gre_bench.polite_session import Pace


def test_requests_keep_their_distance():
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(1.0, clock=lambda: now[0], sleep=sleep)
    pace.wait()
    now[0] += 0.25
    pace.wait()  # a quarter has passed, three quarters are left
    now[0] += 5.0
    pace.wait()
    assert slept == [0.75]
