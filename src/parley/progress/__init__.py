"""What a person sees of a study while it runs."""
