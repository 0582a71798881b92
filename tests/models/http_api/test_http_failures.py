"""Statuses, headers and keys are read as what they mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import orjson
import pytest

from goldless.models.http_api.client import ApiKey, requested_wait, seconds_until, status_failure

NOW = datetime.now(UTC)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.25", 0.25),
        (format_datetime(later(3000), usegmt=True), 3000.0),
        (format_datetime(later(-60), usegmt=True), 0.0),
        ("-3", 0.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("12ms", 0.012),
        (later(6000).isoformat(), 6000.0),
        (str(int(later(5000).timestamp())), 5000.0),
        (str(int(later(5000).timestamp()) * 1000), 5000.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("", None),
        (None, None),
    ],
    ids=range(16),  # not by the values, of which some are times
)
def test_a_wait_is_read_as_seconds_a_duration_a_time_stamp_or_a_date(value, seconds):
    found = seconds_until(value)
    assert found == (pytest.approx(seconds, abs=600 if seconds and seconds >= 3000 else 1e-9) if seconds else seconds)


ANTHROPIC, OPENAI, OPENROUTER = "anthropic-ratelimit-output-tokens", "x-ratelimit", "X-RateLimit"
AT_2000, AT_7000 = later(2000).isoformat(), str(int(later(7000).timestamp()))


@pytest.mark.parametrize(
    ("headers", "error", "seconds"),
    [
        ({"Retry-After-Ms": "250", "Retry-After": "1"}, None, 0.25),
        ({f"{OPENAI}-remaining-requests": "0", f"{OPENAI}-reset-requests": "1m0s"}, None, 60.0),
        ({f"{OPENAI}-remaining-requests": "5", f"{OPENAI}-reset-requests": "1m0s"}, None, None),
        ({f"{ANTHROPIC}-remaining": "0", f"{ANTHROPIC}-reset": AT_2000}, None, 2000.0),
        # as the Gemini API words it: google.rpc.RetryInfo
        ({}, {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}]}, 36.0),
        ({}, {"metadata": {"headers": {f"{OPENROUTER}-Remaining": "0", f"{OPENROUTER}-Reset": AT_7000}}}, 7000.0),
        ({}, {"details": "none"}, None),
        ({}, "busy", None),
    ],
    ids=range(8),  # not by the values, of which some are times
)
def test_each_providers_own_way_to_request_a_wait_is_read(headers, error, seconds):
    within = 600 if seconds and seconds >= 2000 else 1e-9
    assert requested_wait(headers, error) == (seconds and pytest.approx(seconds, abs=within))


@pytest.mark.parametrize(
    ("status", "body", "bad_key"),
    [
        (401, b"", True),
        (403, b"", True),
        (400, b'{"error": {"message": "API key not valid. Please pass a valid API key.", "code": 400}}', True),
        (400, b'{"error": {"message": "API key expired. Please renew the API key."}}', True),
        (400, b'{"error": {"message": "temperature must be positive"}}', False),
    ],
)
def test_a_key_that_is_not_accepted_is_recognised_whatever_the_status(status, body, bad_key):
    assert status_failure(status, body, {}, url="http://127.0.0.1", key=ApiKey()).bad_key is bad_key


REDUCE = "The input or output tokens must be reduced in order to run successfully."
LIMITS = "Visit https://platform.openai.com/account/rate-limits to learn more."
NEVER_FIT = [  # OpenAI, in its older and its later words, and Groq
    {
        "message": f"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. {REDUCE}",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    },
    {
        "message": f"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
        f"Requested 30601. {REDUCE} {LIMITS}",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    },
    {
        "message": "Request too large for model `openai/gpt-oss-20b` in organization `org_1` service tier `on_demand` "
        "on tokens per minute (TPM): Limit 8000, Requested 34031, please reduce your message size and try again.",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    },
]
FITS_LATER = {
    "message": "Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, "
    f"Requested 1500. Please try again in 1s. {LIMITS}",
    "type": "tokens",
    "code": "rate_limit_exceeded",
}


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (429, b'{"error": {"message": "slow down"}}', "rate_limited", True),
        (429, b'{"error": {"message": "no credit", "code": "insufficient_quota"}}', "rate_limited", False),
        *((429, orjson.dumps({"error": error}), "too_long", False) for error in NEVER_FIT),
        (429, orjson.dumps({"error": FITS_LATER}), "rate_limited", True),
        (500, b"boom", "server_error", True),
        (502, b"", "server_error", True),
        (503, b"", "server_error", True),
        (504, b"", "server_error", True),
        (529, b"", "server_error", True),
        (501, b"", "server_error", False),
        (408, b'{"message": "The request took too long to process."}', "server_error", True),
        (400, b'{"error": {"message": "filtered", "code": "content_filter"}}', "refused", False),
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


TOO_LONG = [
    # vLLM since 2026 (vllm-project/vllm pull request 33425), and before (issues 20409, also OpenAI's words, and 12165)
    (
        "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 "
        "'max_tokens'. Please reduce one or the other. (parameter=input_tokens, max_tokens, value=(8, 2045))"
    ),
    (
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
        "messages, 10000 in the completion). Please reduce the length of the messages or completion."
    ),
    "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
    # Anthropic (earendil-works/pi issue 102, docker/docker-agent issue 569)
    "prompt is too long: 219898 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
    # OpenRouter (topoteretes/cognee issue 1061)
    "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307 tokens",
    # llama.cpp (ggml-org/llama.cpp issue 19774), the second as 500
    "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Context size has been exceeded.",
]


@pytest.mark.parametrize("said", TOO_LONG)
def test_a_refusal_for_length_is_known_in_the_words_of_many_servers_and_not_tried_again(said):
    body = json.dumps({"error": {"message": said, "type": "invalid_request_error"}}).encode()
    failure = status_failure(500 if said == TOO_LONG[-1] else 400, body, {}, url="http://127.0.0.1/v1/x", key=ApiKey())
    assert (failure.kind, failure.retryable) == ("too_long", False)
