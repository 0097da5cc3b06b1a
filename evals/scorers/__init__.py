"""Scorers: official rules, re-implemented from their documented behaviour; one benchmark a module."""
