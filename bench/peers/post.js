// What both peers do with a job: the call that the delivery engine makes for a functional ack, with the same headers.
import { randomBytes } from 'node:crypto'
import { Pool } from 'undici'

export const jobs = Number(process.env.JOBS)
export const url = process.env.DATABASE_URL
export const concurrency = 64

const target = new URL(process.env.TARGET)
const pool = new Pool(target.origin, { connections: concurrency, pipelining: 1 })
let started = false

export function make (i) {
  const doc = `TCK_${String(i).padStart(12, '0')}`
  return { id: i, doc, body: process.env.ACK.replaceAll('@DOC@', doc) }
}

export async function post (job) {
  if (!started) {
    started = true
    console.log(Date.now())
  }
  const trace = randomBytes(16).toString('hex')
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: target.pathname,
    headers: {
      'content-type': 'application/json',
      'x-gateway-apikey': 'bench',
      'x-correlation-id': job.doc,
      'idempotency-key': `functional-ack:${job.id}`,
      traceparent: `00-${trace}-${randomBytes(8).toString('hex')}-01`,
      'x-trace-id': trace
    },
    body: job.body
  })
  await body.dump()
  if (statusCode >= 300) throw new Error(`HTTP ${statusCode}`)
}
