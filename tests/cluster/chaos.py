"""Kills, stops, pauses and cuts members at random, and mends them again. Prints what it does, as a time line.

Two troubles at a time at most. One replica, one worker and, of three Redis, two are always left alone. The seed gives the
same sequence of draws; what comes of it depends on the machine, too.
"""

import collections
import random
import time

LONGEST = {"kill": 4, "stop": 4, "pause": 6, "cut": 8}  # seconds until it is mended
RESTART = 2  # seconds from one start of a member to the next, as a supervisor waits
PAUSE = (0.5, 2.5)  # seconds between the begin of two troubles
WORDS = {"kill": ("killed", "started"), "stop": ("told to stop", "started"), "pause": ("paused", "resumed"), "cut": ("cut off", "mended")}


class Chaos:
    def __init__(self, cluster, seed, say):
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.say = say
        self.counts = collections.Counter()
        self.exits = []
        self.open = []  # (due, member, kind)
        self.next_at = time.monotonic() + 1

    def step(self):
        """Called a few times a second."""
        now = time.monotonic()
        for trouble in [t for t in self.open if t[0] <= now and self.has_ended(t)]:
            self.mend(trouble)
        self.supervise()
        if now >= self.next_at and len(self.open) < 2:
            self.begin(now)
            self.next_at = now + self.chance.uniform(*PAUSE)

    @staticmethod
    def has_ended(trouble):
        """Who was told to stop does so in its own time, which is longer while it has no database."""
        _, member, kind = trouble
        return kind != "stop" or member.process.poll() is not None

    def end(self):
        for trouble in sorted(self.open, key=lambda t: t[2] == "stop"):
            self.mend(trouble)
        self.say("everything is mended")

    def candidates(self):
        """Members that may get into trouble now."""
        for group in self.cluster.groups():
            troubled = sum(m.in_trouble for m in group)
            if troubled < max(1, (len(group) - 1) // 2 if group[0].name.startswith("redis") else len(group) - 1):
                yield from (m for m in group if not m.in_trouble)

    def begin(self, now):
        found = list(self.candidates())
        if not found:
            return
        member = self.chance.choice(found)
        kind = self.chance.choice([k for k in member.kinds if k != "cut" or member.node.cable])
        seconds = self.chance.uniform(0.3, LONGEST[kind])
        self.say(f"{member.name:<11} {WORDS[kind][0]}, for {seconds:.1f} s")
        member.begin()
        getattr(member, kind)()
        self.counts[kind] += 1
        self.open.append((now + seconds, member, kind))

    def mend(self, trouble):
        self.open.remove(trouble)
        _, member, kind = trouble
        {"kill": member.restart, "stop": member.restart, "pause": member.resume, "cut": member.mend}[kind]()
        member.end()
        self.say(f"{member.name:<11} {WORDS[kind][1]}")

    def supervise(self):
        """Starts again who ended by itself, as systemd and Kubernetes do. A server may give up (status 1) while it cannot
        reach its database; a signal that nobody sent is a crash."""
        for member in self.cluster.members:
            if member.wanted and member.process.poll() is not None and time.monotonic() > member.began + RESTART:
                self.exits.append((member.name, member.process.returncode))
                self.say(f"{member.name:<11} ended by itself with {member.process.returncode}; started again")
                member.begin()
                member.restart()
                member.end()

    def fail_over(self):
        """The primary dies for good, the standby takes its place, and what was the primary becomes the standby."""
        old, new = self.cluster.primary, self.cluster.standby
        self.say(f"{old.name:<11} killed for good")
        for member in (old, new):
            member.begin()
        old.kill()
        new.promote()
        self.cluster.swap()
        self.say(f"{new.name:<11} promoted")
        old.follow(new)
        old.start()
        self.cluster.make_synchronous()
        for member in (old, new):
            member.end()
        self.counts["failover"] += 1
        self.say(f"{old.name:<11} follows it")
