"""Tests of agents that write actions as JSON."""
