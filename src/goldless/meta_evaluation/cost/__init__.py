"""Costs of metrics and panels of reviewers, and the accuracy they buy."""
