"""What every message between the JVM and the planner carries."""

from __future__ import annotations

import msgspec

PROTOCOL_VERSION = 1


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """What every line carries."""

    v: int = PROTOCOL_VERSION
    """Protocol version of the sender."""
