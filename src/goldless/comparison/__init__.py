"""Comparing two agents of one run or of two, and gating a change on it; nothing here calls a model but ``repeats``."""
