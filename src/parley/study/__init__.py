"""From a study file to its conditions and simulations, and their identity."""

from parley.study.study import Study, load_study

__all__ = ["Study", "load_study"]
