"""The adapter of the small manifest."""


def attend(_query: object, _key: object, value: object, *, mask: object = None) -> object:  # noqa: ARG001  (named by the contract)
    """The values, whatever is asked."""
    return value
