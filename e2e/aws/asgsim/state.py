"""What the simulator remembers beside moto: plans, faults, counters, activities and what each instance does next."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

# Held by every call of the AWS API and by each step of the reconciler: moto itself is not safe for threads.
LOCK = threading.RLock()

# How a group behaves unless a test says otherwise. Times are short: real ones are tens of seconds to minutes.
DEFAULTS = {
    "launch_ms": 100,  # from a higher desired capacity to the instance in Pending
    "pending_ms": 200,  # from Pending to InService
    "warm_ms": 50,  # the same for an instance out of the warm pool
    "scale_in_ms": 500,  # from a lower desired capacity to the end of the first instance too many
    "terminate_ms": 200,  # from Terminating to gone
    "retry_ms": 1000,  # from a failed launch to AWS's next try
    "write_ms": 5,  # how long a write holds its group; another write meanwhile is ResourceContention
    "jitter_ms": 0,  # added to each of the times above, drawn from the seed
    "seed": 0,
    "rebalance_ms": None,  # AZRebalance acts when zones are unequal for this long; None: never. AWS takes minutes
    "hook_ms": None,  # timeout of lifecycle hooks in place of their own
    "decrement_twice": False,  # a second terminate of a terminating instance lowers desired once more
    "fail": None,  # one launch failure or a list of them, see launching.py
}

# Instances that count toward the size of a group.
LIVE = ("Pending", "Pending:Wait", "Pending:Proceed", "InService")
GONE = ("Terminating", "Terminating:Wait", "Terminating:Proceed", "Terminated")


@dataclass
class Due:
    """The next step of an instance, and the activity that reports it."""

    step: str  # up, abandon, gone, warmed
    at: float  # of time.monotonic()
    activity: Any = None


PLANS: dict[str, dict] = {}
FAULTS: list[dict] = []
CALLS: Counter = Counter()  # by (access key, "service:Action")
LOG: list[dict] = []  # every call in order, see wire.py
ACTIVITIES: dict[str, list] = {}  # newest first, by group
DUE: dict[str, Due] = {}
NEXT_TRY: dict[str, float] = {}
TOO_MANY_UNTIL: dict[str, float] = {}
UNEQUAL_SINCE: dict[str, float] = {}
WARM: dict[str, list] = {}  # instances in the warm pool, by group
TOKENS: dict[tuple[str, str], tuple] = {}  # LaunchInstances: what was asked with a token and what was answered
TERMINATIONS: list[dict] = []  # every instance that was ended, and why
WRITING: set[str] = set()  # groups with a write under way
RANDOM: dict[str, random.Random] = {}
SPOT_PRICES: dict[tuple[str, str], list] = {}  # by type and zone: when and what, in order

EVERYTHING = (
    PLANS, FAULTS, CALLS, LOG, ACTIVITIES, DUE, NEXT_TRY, TOO_MANY_UNTIL, UNEQUAL_SINCE, WARM, TOKENS, TERMINATIONS, WRITING, RANDOM,
    SPOT_PRICES,
)  # fmt: skip


class Era:
    """Counts the resets: a call that slept through one belongs to nobody any more."""

    now = 0


def reset():
    with LOCK:
        Era.now += 1
        for part in EVERYTHING:
            part.clear()


def plan(name):
    """How the group `name` behaves: its own plan over the plan `*` over the defaults."""
    return {**DEFAULTS, **PLANS.get("*", {}), **PLANS.get(name, {})}


def now():
    return datetime.now(timezone.utc)


def after(name, what):
    """The moment of time.monotonic() at which `what`, a key of the plan in milliseconds, is over."""
    known = plan(name)
    wait_ms = known[what]
    if known["jitter_ms"]:
        drawn = RANDOM.setdefault(name, random.Random(f"{known['seed']}/{name}"))
        wait_ms += drawn.uniform(0, known["jitter_ms"])
    return time.monotonic() + wait_ms / 1000


def live(group):
    """The instances that count toward desired capacity."""
    return [s for s in group.instance_states if s.lifecycle_state in LIVE]


def terminated(state, why):
    TERMINATIONS.append(
        {"id": state.instance_id, "group": state.auto_scaling_group_name, "why": why, "at": now().isoformat()}
    )
