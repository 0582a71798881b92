"""GRE-bench: which model writes the most informative reviews, on papers it cannot have seen (GEM paper, section 5)."""
