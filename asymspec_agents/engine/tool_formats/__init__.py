"""How models write tool calls: one file a family of formats, and the table that finds a model's own."""
