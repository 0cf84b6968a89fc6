"""The explorer: pages in which every simulation of a study can be read, reply by reply."""
