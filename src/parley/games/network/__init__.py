"""Who hears whom: topologies, the networks drawn from them, and what a game shows of its network."""
