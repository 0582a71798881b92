"""A jury of qualified reviewers behind one address, for any tool that can talk to OpenAI.

panel.py    Jury: every juror asked in both orders, one weighted verdict, and what its calls are charged for
wire.py     what a request asks, from JSON or from a judge prompt, and the reply in OpenAI's format
server.py   the server
"""
