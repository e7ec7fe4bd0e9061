"""The common parts of drivers that reach models over HTTP; messages have the shapes of the Messages API."""
