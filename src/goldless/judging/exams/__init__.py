"""Exams: the questions a reviewer must answer before its vote counts. Metrics score the answers.

``items`` draws pairs (consistency, human) and asks a reviewer about them; ``pertinence`` and ``self_confidence`` choose
or build their own.
"""
