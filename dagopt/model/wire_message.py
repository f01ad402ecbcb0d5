"""What every message between the JVM and the planner carries."""

from __future__ import annotations

import msgspec

PROTOCOL_VERSION = 2
"""Both sides must have the same; Wire.scala has it too. A type of message that the other side does not know, or one
that it would misread, makes another version."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """What every line carries."""

    v: int = PROTOCOL_VERSION
    """Protocol version of the sender."""
