"""A session and its agent: state, commands, events, and all decisions about them."""
