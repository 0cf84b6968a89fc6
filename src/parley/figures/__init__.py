"""The figures, a module for each kind."""
