"""The consensus game by the protocol published for Swarms: agents speak in turn."""
