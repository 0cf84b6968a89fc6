"""The report: one page with the tables, the figures and where they come from."""
