"""Games that were played elsewhere: the formats that can be read, what is checked, and the records that are made."""
