"""Each adapter with several releases of its library, each in an environment of its own."""
