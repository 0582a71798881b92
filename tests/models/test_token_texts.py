"""The texts of a scorer's tokens, wherever they are needed."""

from __future__ import annotations

import pytest

from goldless.models.embedded import TokenTexts


def test_a_scorer_whose_tokenizer_is_not_here_has_no_pieces():
    assert TokenTexts().pieces("hf:somewhere@1234", "some text") is None


@pytest.mark.anyio
@pytest.mark.embedded
async def test_pieces_join_to_the_text_even_while_a_loop_is_running(embedded):
    text = "Rain fell on the ferry. Nobody minded."
    assert "".join(TokenTexts().pieces(embedded.identity.short, text)) == text
