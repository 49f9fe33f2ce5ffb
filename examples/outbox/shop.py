#!/usr/bin/python3
"""A shop that tells others of its orders. The order and its event are one transaction: both are there, or neither.

    shop.py setup                 makes the tables
    shop.py order ARTICLE COUNT   takes an order
    shop.py cancel ORDER          takes it back
    shop.py events                shows what became of the events

SHOP_DATABASE is the address of a PostgreSQL database. A relay (relay.ini) sends the events to RabbitMQ; the shop knows
nothing of it.
"""

import contextlib
import json
import os
import sys
import uuid

import psycopg2

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, article text NOT NULL, count int NOT NULL CHECK (count > 0), state text NOT NULL);
CREATE TABLE IF NOT EXISTS outbox_events (
    id uuid PRIMARY KEY, event_type varchar(200) NOT NULL, payload text NOT NULL, status varchar(20) NOT NULL DEFAULT 'PENDING',
    attempts int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    aggregate_type varchar(200), aggregate_id varchar(200), next_attempt_at timestamptz, processed_at timestamptz, last_error varchar(2000));
CREATE INDEX IF NOT EXISTS outbox_events_pending ON outbox_events (created_at, id) WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS outbox_events_aggregate ON outbox_events (aggregate_type, aggregate_id, created_at, id) WHERE status = 'PENDING';
CREATE OR REPLACE FUNCTION outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('outbox_events', ''); RETURN NULL; END $$;
DROP TRIGGER IF EXISTS outbox_wake ON outbox_events;
CREATE TRIGGER outbox_wake AFTER INSERT ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_wake();
"""


def tell(cursor, event_type, order, **payload):
    """Writes the event beside the change, with the same cursor: that is all an outbox takes."""
    cursor.execute("INSERT INTO outbox_events (id, event_type, payload, aggregate_type, aggregate_id) VALUES (%s, %s, %s, 'order', %s)",
                   (str(uuid.uuid4()), event_type, json.dumps({"order": order, **payload}), order))


def setup(cursor):
    cursor.execute(SCHEMA)


def order(cursor, article, count):
    number = str(uuid.uuid4())
    tell(cursor, "OrderPlaced", number, article=article, count=int(count))
    # The event is written, and yet not sent if this fails.
    cursor.execute("INSERT INTO orders VALUES (%s, %s, %s, 'placed')", (number, article, count))
    print(number)


def cancel(cursor, number):
    cursor.execute("UPDATE orders SET state = 'cancelled' WHERE id = %s AND state = 'placed'", (number,))
    if not cursor.rowcount:
        sys.exit("shop.py: no such order, or not placed any more")
    tell(cursor, "OrderCancelled", number)


def events(cursor):
    cursor.execute("SELECT event_type, aggregate_id, status, attempts FROM outbox_events ORDER BY created_at")
    for row in cursor:
        print(*row)


def main():
    commands = {"setup": setup, "order": order, "cancel": cancel, "events": events}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    with contextlib.closing(psycopg2.connect(os.environ["SHOP_DATABASE"])) as connection, connection, connection.cursor() as cursor:
        commands[sys.argv[1]](cursor, *sys.argv[2:])


if __name__ == "__main__":
    main()
