"""The read model: the runtime's own tables, their projection from events, and the queries on them."""
