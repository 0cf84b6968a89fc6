"""The working directory that the tests of a module share."""

from support.figures import home as home
