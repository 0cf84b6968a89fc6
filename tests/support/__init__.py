"""What tests share: stand-ins, players of games, builders of studies, fixtures."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
