"""`asymspec gateway`: a proxy that routes the calls of any OpenAI client into both views.

`app.create_gateway` makes the ASGI application, `options.GatewayOptions` says what it does.
"""
