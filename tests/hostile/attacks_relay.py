"""Outboxes of other applications, with payloads of any size."""

from harness import wait_for
from outboxes import Outbox
from target import Attack

ROWS, SIZE, TOO_LARGE = 150, 2_000_000, 40_000_000
RELAYS = ("one", "two")


def payload_of(target, size):
    """A JSON text, made by the database: half a gigabyte need not come from here."""
    return f"'\"' || replace(hex(zeroblob({size // 2})), '0', 'x') || '\"'" if target.backend.name == "sqlite" else \
        f"'\"' || repeat('x', {size}) || '\"'"


def write_large(target, outbox):
    events = outbox.write(ROWS, payload='"small"') + outbox.write(1, payload='"large"')
    cast = "" if target.backend.name == "sqlite" or outbox.types["payload"] == "text" else "::jsonb"
    for at, size in (("<>", SIZE), ("=", TOO_LARGE)):
        outbox.execute(f"UPDATE {outbox.quoted} SET payload = ({payload_of(target, size)}){cast}"
                       f" WHERE id {at} '{events[-1]['id']}'")
    # What nobody may send comes between the others, not behind them.
    outbox.execute(f"UPDATE {outbox.quoted} SET created_at = '{events[ROWS // 2]['created_at']}'"
                   f" WHERE id = '{events[-1]['id']}'")


def make_outboxes(target):
    text = {"payload": "text"} if target.backend.name == "postgres" else None
    target.outboxes = [Outbox(target.backend, "outbox_one", types=text), Outbox(target.backend, "outbox_two")]
    for outbox in target.outboxes:
        outbox.execute(f"CREATE INDEX {outbox.table}_pending ON {outbox.quoted} (created_at, id)"
                       " WHERE status = 'PENDING'")  # as docs/relay.md wants it
        write_large(target, outbox)


def relays(target):
    """One sends in the order of aggregates, the other as it comes."""
    both = {"url": target.backend.url, "dispatcher": "http", "target": target.peer.url, "poll_ms": 20}
    return {"relay.one": {**both, "table": "outbox_one"},
            "relay.two": {**both, "table": "outbox_two", "order": "aggregate"}}


def wait_until_sent(target):
    for outbox in target.outboxes:
        wait_for(lambda at=outbox: at.states() == {"PROCESSED": ROWS, "FAILED": 1}, "all rows to be sent", timeout=150)


def all_have_arrived(target, _sent):
    assert len([size for size in target.peer.bytes if size > SIZE]) >= len(RELAYS) * ROWS
    assert max(target.peer.bytes) < TOO_LARGE


def failure_says_why(target, _sent):
    for outbox in target.outboxes:
        (error,), = target.backend.query(f"SELECT last_error FROM {outbox.quoted} WHERE status = 'FAILED'")
        assert error == f"the payload has {TOO_LARGE + 2} bytes, at most 16777216 are sent"


ATTACKS = [
    Attack("relay-large-rows",
           "two outboxes with 150 payloads of 2 MB each, and one of 40 MB between them: a batch was 200 of them",
           wait_until_sent, (all_have_arrived, failure_says_why), prepare=make_outboxes, config=relays),
]
