"""What drivers of models over HTTP share; messages have the shapes of the Messages API, in which they are recorded."""
