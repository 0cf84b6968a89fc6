"""The games: rules, prompts and evidence of each in a folder of its own, and what all of them share."""
