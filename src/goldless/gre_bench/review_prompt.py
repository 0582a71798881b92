"""What models are told when they are to review a paper: prompt C.3 of the GEM paper, word for word."""

from __future__ import annotations

NAME = "gem-c3"
"""Its name in signatures."""

REVIEW_PROMPT = (
    "You are given a paper submission for a top-tier Machine Learning conference which you need to write a detailed "
    "review. Please read the paper carefully. Once you have finished reading, please provide the following in your "
    "review:\n"
    "First, write a concise summary of the key points and contributions of the paper inside <summary> tags.\n"
    "Next, think critically about the strengths and weaknesses of the submission. Inside <strengths> tags, give a "
    "numbered list of at least 4 key reasons why this paper should potentially be accepted to the conference. For each "
    "reason, use sub-bullet points to provide detailed arguments and evidence from the paper to support that reason.\n"
    "Then, inside <weaknesses> tags, give a numbered list of at least 4 key reasons why this paper should potentially "
    "be rejected from the conference. Again, for each reason, use sub-bullet points to provide detailed arguments and "
    "evidence from the paper to support that reason.\n"
    "After weighing the reasons for and against, think of some open questions you have about the work. List your "
    "questions inside <questions> tags.\n"
    "Remember, as a reviewer your job is to rigorously evaluate the strengths and weaknesses of the work and to "
    "provide critical but constructive feedback to the authors. Be thorough, specific and detailed in your arguments "
    "and feedback. Highlight both the positives and negatives you see, and justify your points carefully with "
    "reference to the content of the paper."
)
"""GEM paper, appendix C.3, the system prompt; the user's turn is the full paper as text. The paper prints its lines
broken by the width of the page; here a line is a paragraph of it."""

SECTIONS = ("summary", "strengths", "weaknesses", "questions")
"""The tags that the prompt asks for, in its order."""
