"""A fleet: copies of a model in workers of a Ray cluster, used like one model on this machine."""
