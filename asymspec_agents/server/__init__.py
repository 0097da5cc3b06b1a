"""`asymspec serve`: an OpenAI-compatible server with AsymSpec's object, over the engine in this process."""
