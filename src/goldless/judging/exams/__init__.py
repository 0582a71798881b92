"""Exams: what a reviewer is asked before its vote counts, one module an exam. What the answers are worth, metrics say.

``pairs`` draws items, ``answers`` puts them to a reviewer; consistency, pertinence, self_confidence and human choose or
build them.
"""
