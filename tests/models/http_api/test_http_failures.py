"""Statuses, headers and keys are read as what they mean."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from goldless.models.http_api.client import ApiKey, retry_after_seconds, status_failure

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.25", 0.25),
        ("Sun, 15 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 15 Nov 2026 11:59:00 GMT", 0.0),
        ("-3", 0.0),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(value, seconds):
    assert retry_after_seconds(value, now=NOW) == seconds


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (429, b'{"error": {"message": "slow down"}}', "rate_limited", True),
        (429, b'{"error": {"message": "no credit", "code": "insufficient_quota"}}', "rate_limited", False),
        (500, b"boom", "server_error", True),
        (502, b"", "server_error", True),
        (503, b"", "server_error", True),
        (504, b"", "server_error", True),
        (529, b"", "server_error", True),
        (501, b"", "server_error", False),
        (400, b'{"error": {"message": "bad"}}', "rejected", False),
        (401, b"", "rejected", False),
        (403, b"", "rejected", False),
        (404, b'{"detail": "Not Found"}', "rejected", False),
        (422, b'{"detail": [{"loc": ["body"]}]}', "rejected", False),
        (307, b"", "rejected", False),
        (400, b'{"error": {"message": "This model\'s maximum context length is 8 tokens"}}', "too_long", False),
        (400, b'{"error": {"message": "no", "code": "context_length_exceeded"}}', "too_long", False),
    ],
)
def test_a_status_becomes_a_kind_and_only_passing_faults_are_tried_again(status, body, kind, retryable):
    failure = status_failure(status, body, {}, url="http://127.0.0.1/v1/x", key=ApiKey())
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert str(status) in failure.message


def test_a_key_is_neither_printed_nor_left_in_a_text():
    key = ApiKey("sk-secret-value")
    assert "secret" not in f"{key!r} {key}"
    assert "secret" not in key.redact("you sent 'Bearer sk-secret-value', or sk-secret-value alone")


def test_a_key_is_redacted_before_a_message_is_shortened():
    body = b"x" * 370 + b" sk-secret-value"
    failure = status_failure(400, body, {}, url="http://127.0.0.1/v1/x", key=ApiKey("sk-secret-value"))
    assert "sk-" not in failure.message


def test_credentials_that_are_not_ours_are_redacted_too():
    assert ApiKey().redact('{"Authorization": "Basic dXNlcjpwYXNz"}') == '{"Authorization": "Basic [redacted]"}'
