"""A card for a model: a frozen study of studies, and what it says of a model on one sheet."""
