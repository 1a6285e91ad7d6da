"""Other people's agents and data, one file each, each behind its extra."""
