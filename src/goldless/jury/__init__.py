"""A jury of qualified reviewers behind one address, for any tool that can talk to OpenAI.

panel.py         Jury: every juror asked in both orders, one weighted verdict
layouts.py       what a request asks: the question and the answers, from JSON or from a judge prompt
metering.py      what one verdict's calls are charged for
completions.py   replies and errors in OpenAI's format
server.py        the server
"""
