"""Named, small, deliberately wrong attentions of attnspec's own, and sound ones beside them."""
