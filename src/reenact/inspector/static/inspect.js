// The pages are complete without this: it adds keys, and follows the log.
