"""Parley measures whether groups of LLM agents can agree, and what breaks their agreement."""

__version__ = "0.1.0"
