"""The types of the parameters and results of all methods of the protocol, and of the objects in them."""

from ._schema import *  # noqa: F403
