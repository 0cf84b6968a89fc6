"""Calibration: the same questions asked of a model plainly, and in the reply formats of each game."""
