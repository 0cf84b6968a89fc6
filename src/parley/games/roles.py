"""The roles that games share: who keeps to the rules, and who may break them."""

HONEST = "honest"
BYZANTINE = "byzantine"
