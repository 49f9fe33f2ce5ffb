// What a peer does with a job, by WORK: "ack" is the call that the delivery engine makes for a functional ack, "http"
// and "log" are what the relay does with an event, with the same headers and the same fields.
import { randomBytes } from 'node:crypto'
import { writeSync } from 'node:fs'
import { Pool } from 'undici'

export const jobs = Number(process.env.JOBS)
export const url = process.env.DATABASE_URL
export const concurrency = 64

const target = process.env.TARGET && new URL(process.env.TARGET)
const pool = target && new Pool(target.origin, { connections: concurrency, pipelining: 1 })

async function post (headers, content) {
  const trace = randomBytes(16).toString('hex')
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: target.pathname,
    headers: {
      'content-type': 'application/json',
      traceparent: `00-${trace}-${randomBytes(8).toString('hex')}-01`,
      'x-trace-id': trace,
      ...headers
    },
    body: content
  })
  await body.dump()
  if (statusCode >= 300) throw new Error(`HTTP ${statusCode}`)
}

function makeAck (i) {
  const doc = `TCK_${String(i).padStart(12, '0')}`
  return { id: i, doc, body: process.env.ACK.replaceAll('@DOC@', doc) }
}

const postAck = job => post({
  'x-gateway-apikey': 'bench',
  'x-correlation-id': job.doc,
  'idempotency-key': `functional-ack:${job.id}`
}, job.body)

function makeEvent (i) {
  const order = String(i).padStart(12, '0')
  return {
    id: `00000000-0000-7000-8000-${order}`,
    type: 'order.placed',
    aggregateType: 'Order',
    aggregateId: order,
    correlationId: `c-${order}`,
    createdAt: new Date().toISOString(),
    payload: process.env.PAYLOAD.replaceAll('@ORDER@', order)
  }
}

const postEvent = e => post({
  'ce-specversion': '1.0',
  'ce-id': e.id,
  'ce-source': '/dataflow/relay/bench',
  'ce-type': e.type,
  'ce-time': e.createdAt,
  'ce-subject': e.aggregateId,
  'ce-aggregatetype': e.aggregateType,
  'ce-correlationid': e.correlationId,
  'idempotency-key': `bench:${e.id}`,
  'x-correlation-id': e.correlationId
}, e.payload)

// Straight to the file, as the quick ones of Node's loggers do it.
async function logEvent (e) {
  writeSync(2, JSON.stringify({
    time: new Date().toISOString(),
    level: 'info',
    event: 'OutboxEvent',
    message: '',
    eventId: e.id,
    eventType: e.type,
    aggregateType: e.aggregateType,
    aggregateId: e.aggregateId,
    correlationId: e.correlationId,
    attempt: 1,
    relay: 'bench',
    bytes: e.payload.length
  }) + '\n')
}

const kinds = { ack: [makeAck, postAck], http: [makeEvent, postEvent], log: [makeEvent, logEvent] }
export const [make, handle] = kinds[process.env.WORK]

let started = false
// The first one tells when it was.
export async function work (job) {
  if (!started) {
    started = true
    console.log(Date.now())
  }
  await handle(job)
}
