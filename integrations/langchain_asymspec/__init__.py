"""AsymSpec for LangChain."""
