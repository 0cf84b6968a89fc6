"""What the explorer writes, for the rooms that know it by this name."""

from support.pages import data_of, index_of, small_played

__all__ = ["data_of", "index_of", "small_played"]
