"""Exams: what a reviewer is asked before its vote counts. What the answers are worth, metrics say.

``items`` draws pairs and puts them to a reviewer; pairwise (consistency, human), pertinence and self_confidence choose
or build them.
"""
