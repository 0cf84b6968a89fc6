"""Playing simulations and keeping them: runner, journal, record, replay, verification, what was spent."""
