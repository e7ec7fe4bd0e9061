"""The subcommands of `reenact`."""
