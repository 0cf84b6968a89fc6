"""What a deliberation is about: problems, where they come from, and when two answers are the same."""
