"""The Byzantine Consensus Game of "Can AI Agents Agree?"."""
