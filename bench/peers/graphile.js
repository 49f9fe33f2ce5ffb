// graphile.js fill | drain: Graphile Worker, with what its page on performance names: a local queue, completions in
// batches, prepared statements.
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { concurrency, jobs, make, url, work } from './work.js'

if (process.argv[2] === 'fill') {
  const utils = await makeWorkerUtils({ connectionString: url })
  await utils.migrate()
  for (let i = 0; i < jobs; i += 5000) {
    const rows = []
    for (let k = i; k < Math.min(i + 5000, jobs); k++) rows.push({ identifier: 'job', payload: make(k) })
    await utils.addJobs(rows)
  }
  await utils.release()
} else {
  await run({
    preset: {
      worker: {
        connectionString: url,
        maxPoolSize: 10,
        concurrentJobs: concurrency,
        pollInterval: 500,
        preparedStatements: true,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0
      }
    },
    logger: new Logger(() => () => {}),
    taskList: { job: work }
  })
}
