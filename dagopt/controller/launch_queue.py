"""Groups of one input host set whose delay has not ended, and which of these to look at again.

A group's delay depends on what its own host reads before it, and on other hosts only where these are
more than the set has lanes. So a host is looked at again when its reading changed, or when the time
itself moves a delay of it: a group whose turn has come is due now, and one that is delayed as long as is
allowed is so from now on. All other groups would be planned as they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from dagopt.controller.group import GroupState


class LaunchQueue:
    """Delayed groups by reading host."""

    def __init__(self) -> None:
        """No group is delayed."""
        self._by_host: dict[str, dict[int, GroupState]] = {}
        self._look_s: dict[str, float] = {}
        """By host: after when to look at it again whatever happens."""
        self._looks: list[tuple[float, str]] = []
        """A heap of the same; entries that are not in the dictionary any more do not count."""

    def add(self, group: GroupState) -> None:
        """A group was formed."""
        self._by_host.setdefault(group.host, {})[group.group] = group

    def drop(self, group: GroupState) -> None:
        """The group is over, if it is here at all."""
        self._by_host.get(group.host, {}).pop(group.group, None)

    def look_after(self, host: str, time_s: float) -> None:
        """Nothing but a change of its reading moves a delay of the host before then."""
        if self._look_s.get(host) == time_s:
            return
        self._look_s[host] = time_s
        heapq.heappush(self._looks, (time_s, host))

    def hosts(self) -> list[str]:
        """All hosts that may have delayed groups."""
        return list(self._by_host)

    def hosts_to_look_at(self, touched: Iterable[str], now_s: float) -> list[str]:
        """Hosts on which a delay may have to move.

        Args:
            touched: hosts whose reading changed.
            now_s: epoch seconds.
        """
        found = {host for host in touched if host in self._by_host}
        while self._looks and self._looks[0][0] < now_s:
            time_s, host = heapq.heappop(self._looks)
            if self._look_s.get(host) == time_s:
                del self._look_s[host]
                found.add(host)
        return list(found)

    def delayed(self, hosts: Iterable[str], now_s: float) -> list[GroupState]:
        """Groups on the hosts whose delay has not ended, in the order in which it will.

        Those whose delay has ended are not in the queue any more.
        """
        found: list[GroupState] = []
        for host in hosts:
            own = self._by_host[host]
            for group in [group for group in own.values() if group.launch_s <= now_s]:
                del own[group.group]
            if own:
                found += own.values()
            else:
                del self._by_host[host]
                self._look_s.pop(host, None)
        found.sort(key=lambda group: (group.launch_s, group.group))
        return found
