"""From a study file to its conditions and simulations, and their identity."""

from parley.study.load import load_study
from parley.study.study import Study

__all__ = ["Study", "load_study"]
