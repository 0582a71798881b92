"""The audit: what texts and scores show before anyone trusts a ranking."""
