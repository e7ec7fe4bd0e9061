"""The runtime's own tables: what each event adds to them, and what is read from them."""
