"""Probing: what an implementation really does, found out by small problems whose answers tell the cases apart."""
