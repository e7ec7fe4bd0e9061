"""The log in a PostgreSQL database, which several processes may write; only this package uses the driver."""
