"""From a form to the Python of its adapter."""
