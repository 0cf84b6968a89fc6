"""The measured game, for the rooms that know it by this name."""

from support.figures import MeasuredEvidence, MeasuredGame, measured, played

__all__ = ["MeasuredEvidence", "MeasuredGame", "measured", "played"]
