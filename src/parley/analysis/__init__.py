"""From records to numbers: statistics, tables, contrasts."""
