"""How long a request is: as its model counts it, or estimated on the safe side."""

from __future__ import annotations

import pytest

from goldless.models.interface import Message
from goldless.models.tokens import RequestLength, context_limit, estimated_tokens, request_length

pytestmark = pytest.mark.anyio

PAPER_LIKE = (
    "We fit y = Wx + b with W ∈ R^{d×k} by SGD (lr 3e-4, 10,000 steps). Table 2: 71.3 ± 0.4 | 68.9 ± 0.6 | 70.2 ± 0.5. "
    "Our method outperforms the baselines of Müller et al. [17] on 4/5 data sets, except Omniglot (cf. Sec. 4.2).\n"
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("x", 1), ("xxx", 1), ("xxxx", 2), ("a b", 1), ("12.5", 4), ("\n", 1), ("é", 2), ("ab∈", 3)],
)
def test_an_estimate_is_a_token_for_three_letters_or_one_sign_and_two_beyond_ascii(text, tokens):
    assert estimated_tokens(text) == tokens


@pytest.mark.embedded
async def test_a_model_on_this_machine_counts_the_tokens_that_it_reads_and_the_estimate_is_not_below(embedded):
    messages = (Message("system", "You read papers."), Message("user", PAPER_LIKE * 3))
    found = await request_length(embedded, messages)
    scored = await embedded.encode(messages, "Fine.")
    assert found == RequestLength(len(scored.context), exact=True)
    assert estimated_tokens(PAPER_LIKE * 3) > found.tokens
    assert context_limit(embedded, None) == 8192
    assert context_limit(embedded, 1000) == 1000
