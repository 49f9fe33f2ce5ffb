// pgboss.js fill | drain: pg-boss. Batches are fetched and completed whole, one after the other without a pause while
// they are full (burstWhenBatchFull); four workers, so that one fetches and completes while others send.
import { PgBoss } from 'pg-boss'
import { concurrency, jobs, make, url, work } from './work.js'

const name = 'jobs'
const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false })
boss.on('error', console.error)
await boss.start()
if (process.argv[2] === 'fill') {
  await boss.createQueue(name)
  for (let i = 0; i < jobs; i += 5000) {
    const rows = []
    for (let k = i; k < Math.min(i + 5000, jobs); k++) rows.push({ data: make(k) })
    await boss.insert(name, rows)
  }
  await boss.stop()
} else {
  const options = {
    batchSize: 2 * concurrency, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5
  }
  await boss.work(name, options, batch => Promise.all(batch.map(job => work(job.data))))
}
