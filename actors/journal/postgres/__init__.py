"""The log in a PostgreSQL database, which several processes may write at once; all that knows the driver is in here."""
