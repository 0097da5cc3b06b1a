"""Tools that prepare models for vLLM."""
