"""Tests of single compressors that need fixtures of their own."""
