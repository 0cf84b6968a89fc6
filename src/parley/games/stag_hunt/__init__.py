"""The stag hunt with cheap talk."""
