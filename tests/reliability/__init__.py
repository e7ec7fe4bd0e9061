"""Nothing is lost: connections, clients, servers and machines that fail."""
