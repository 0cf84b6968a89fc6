"""Engines behind a URL: what they allow, what they cost, and how they are asked with patience."""
