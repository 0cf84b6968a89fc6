"""The ledger of a study: what was said in its simulations, signed, chained and counted (docs/reference/ledger.md).

The rules follow *Achieving Unanimous Consensus Through Multi-Agent Deliberation* (Pokharel et al.), sections VI, VII
and XI. No module here knows a game by its name: a game that keeps a ledger tells what was said as sessions
(`parley.games.evidence`).
"""
