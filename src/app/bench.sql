-- What the benchmarks write: rows of the server's own outbox, as POST bodies bring them.

-- name: bench_insert
INSERT INTO outbox_events (id, event_type, payload, created_at)
VALUES (:id, :event_type, :payload, :created_at);
