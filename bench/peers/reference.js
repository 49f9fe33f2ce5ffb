// reference.js: a relay as its story tells it, a scheduled method of one process: every INTERVAL ms up to 50 PENDING
// events are locked with SKIP LOCKED, dispatched one by one, each marked, and the transaction is committed.
import pg from 'pg'
import { handle, url } from './work.js'

const interval = Number(process.env.INTERVAL)
const client = new pg.Client({ connectionString: url })
const claim = {
  name: 'claim',
  text: `SELECT id, event_type AS type, payload, attempts, aggregate_type AS "aggregateType",
    aggregate_id AS "aggregateId", correlation_id AS "correlationId", created_at AS "createdAt"
    FROM outbox_events WHERE status = 'PENDING' ORDER BY created_at, id LIMIT 50 FOR UPDATE SKIP LOCKED`
}
const done = "UPDATE outbox_events SET status = 'PROCESSED', processed_at = clock_timestamp() WHERE id = $1"
const failed = `UPDATE outbox_events SET attempts = attempts + 1,
  status = CASE WHEN attempts >= 5 THEN 'FAILED' ELSE status END WHERE id = $1`

async function tick () {
  await client.query('BEGIN')
  const { rows } = await client.query(claim)
  for (const row of rows) {
    let sent = true
    try {
      await handle({ ...row, createdAt: row.createdAt.toISOString() })
    } catch {
      sent = false
    }
    await client.query({ name: sent ? 'done' : 'failed', text: sent ? done : failed, values: [row.id] })
  }
  await client.query('COMMIT')
}

await client.connect()
for (let due = Date.now(); ;) {
  await tick()
  due = Math.max(due + interval, Date.now())
  await new Promise(resolve => setTimeout(resolve, due - Date.now()))
}
