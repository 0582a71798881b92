"""Sentence embeddings: each sentence a direction, near ones alike in meaning.

The default is all-MiniLM-L6-v2, computed without torch; any model of the package sentence-transformers by name.
"""

from __future__ import annotations

from goldless.models.sentence_embedding.embedder import SentenceEmbedder, named_embedder, packaged_embedder

__all__ = ["SentenceEmbedder", "named_embedder", "packaged_embedder"]
