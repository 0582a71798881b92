"""Rewarding: how much each completion says about references that its writer did not see, as a reward for training."""
