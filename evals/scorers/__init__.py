"""Official scoring rules, re-implemented from their documented behaviour; each file names its source."""
