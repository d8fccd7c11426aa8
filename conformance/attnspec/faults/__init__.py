"""Named, small, deliberately wrong attentions, and sound ones to hold beside them. They are attnspec's own."""
