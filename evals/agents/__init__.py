"""Agents under test: ReAct episodes over an arm, with tools over passages, the web or a cassette.

Reading order: `episode` (one task, start to end), `model` (what the agent asks), `trajectory` (what is kept
of it), `tools`, `passages` (a local search), `web` and `cassettes` (a search that repeats without the
internet), `policy` (what the verifier sees), `settings` and `web_options` (what can be chosen).
"""
