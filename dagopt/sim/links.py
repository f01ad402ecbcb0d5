"""How fast transfers run that share links.

Every transfer crosses a few links and gets its max-min fair share: rates rise together until a link
is full, what crosses that link stays as it is, the rest rises on. It is what long TCP flows of one
shuffle come close to; ramp-up and loss are not modelled.

Source: D. Bertsekas and R. Gallager, "Data Networks", 2nd ed., 1992, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

_Link = TypeVar("_Link", bound=Hashable)


def max_min_rates(
    crosses: Sequence[Sequence[_Link]], capacity_bytes_per_s: Mapping[_Link, float]
) -> list[float]:
    """Bytes per second of every transfer.

    Args:
        crosses: of each transfer, the links that it crosses, at least one.
        capacity_bytes_per_s: of every link, > 0.
    """
    rates = [0.0] * len(crosses)
    left = dict(capacity_bytes_per_s)
    users: dict[_Link, set[int]] = {}
    for transfer, links in enumerate(crosses):
        for link in links:
            users.setdefault(link, set()).add(transfer)
    while users:  # a pass fills at least one link, so at most as many passes as links
        fullest = min(users, key=lambda link: left[link] / len(users[link]))
        share = left[fullest] / len(users[fullest])
        for transfer in tuple(users[fullest]):
            rates[transfer] = share
            for link in crosses[transfer]:
                left[link] = max(0.0, left[link] - share)
                users[link].discard(transfer)
        users = {link: who for link, who in users.items() if who}
    return rates
