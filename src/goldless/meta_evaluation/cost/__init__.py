"""What a metric or a panel of reviewers costs, and what accuracy the money buys."""
