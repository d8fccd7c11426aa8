"""What is judged: how implementations are found, what they declare, and how they are called. Judges nothing."""
