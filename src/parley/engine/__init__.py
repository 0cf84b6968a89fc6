"""Engines: the vLLM server, the client that asks it, and the models that it serves."""
