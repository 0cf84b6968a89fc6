"""Results in the formats of other tools: logs of inspect_ai, Croissant, RO-Crate."""
