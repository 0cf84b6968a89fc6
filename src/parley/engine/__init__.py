"""Models, their weights, the servers that run them, and the client that asks them."""
