"""A session and the agent that is running it: state, commands, events, and every decision about them."""
