"""Small problems whose answers show what an implementation does where libraries differ."""
