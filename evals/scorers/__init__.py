"""Scoring rules, one a file: the official ones written anew from their documented behaviour."""
