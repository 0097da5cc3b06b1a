"""AsymSpec's wire on vLLM's own server: an endpoint plugin that answers requests with an `asymspec` object.

Every other request goes to vLLM's handlers, untouched.
"""
