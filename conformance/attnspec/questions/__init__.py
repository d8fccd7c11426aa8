"""Questions: small problems put to an implementation whose answers tell apart what practice is divided on."""
