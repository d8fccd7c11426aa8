"""What is said when attnspec itself fails."""

DEFECT = """
The lines above are a defect of attnspec itself, not of what it judges. Please report them, with the command."""
