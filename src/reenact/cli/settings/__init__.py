"""Settings: environment variables, settings.json, and the files that options name."""
