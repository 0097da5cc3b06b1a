"""OpenAI's HTTP interface with AsymSpec's object: bodies, answers, streams and errors, read and written.

One implementation for every side: what a client writes here, a server reads here.
"""
