"""Comparing two agents of one run or of two, and gating a change on it; only ``asking_again`` calls models."""
