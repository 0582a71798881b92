"""Meta-evaluation: how far a metric can be trusted on this data, for any metric."""
