#!/usr/bin/env node
// Uploads a file, follows its import to the end, and saves the rows that failed so that they can be mended:
//   node import-workbook.mjs leads.xlsx [SHEET]
// DATAFLOW_URL, DATAFLOW_CLIENT_ID and DATAFLOW_CLIENT_SECRET say where and who. Exit status: 0 all imported, 1 some
// rows or all failed, 2 the file was not accepted.
import { basename } from 'node:path';
import { ApiError, DataFlow, NetworkError } from '@dataflow/sdk';

const [path, sheet] = process.argv.slice(2);
if (!path) {
  console.error('usage: import-workbook.mjs FILE [SHEET]');
  process.exit(2);
}
const dataflow = new DataFlow({
  baseUrl: process.env.DATAFLOW_URL,
  clientId: process.env.DATAFLOW_CLIENT_ID,
  clientSecret: process.env.DATAFLOW_CLIENT_SECRET,
});
const stop = new AbortController();
process.once('SIGINT', () => stop.abort());

try {
  const accepted = await dataflow.imports.upload(path, { sheet, requestedBy: process.env.USER, originDefault: 'Workbook' }, {
    signal: stop.signal,
    onProgress: ({ sent, total }) => console.log(`sent ${Math.floor((100 * sent) / total)} %`),
  });
  console.log(`import ${accepted.batchId}: ${accepted.message}`);

  const batch = await dataflow.imports.wait(accepted.batchId, {
    signal: stop.signal,
    onProgress: ({ status, processedRecords, totalRecords }) => console.log(`${status}: ${processedRecords} of ${totalRecords ?? '?'} rows`),
  });
  console.log(`${batch.status}: ${batch.importedCount} imported, ${batch.errorCount} failed, ${batch.skippedCount} skipped`);
  if (batch.lastError) console.error(batch.lastError);

  if (batch.errorCount > 0) {
    for await (const item of dataflow.imports.items(batch.batchId, { status: 'Error' })) {
      console.log(`record ${item.sequence + 1}: ${item.errorMessage}`);
    }
    const report = basename(path).replace(/(\.\w+)?$/, '.errors.xlsx');
    await (await dataflow.imports.errorsXlsx(batch.batchId)).save(report);
    console.log(`mend the rows in ${report} and import it again`);
  }
  process.exitCode = batch.status === 'Completed' ? 0 : 1;
} catch (error) {
  if (error instanceof ApiError) {
    console.error(`${error.code}: ${error.detail ?? error.title} (correlation ${error.correlationId})`);
    for (const { field, message } of error.errors) console.error(`  ${field}: ${message}`);
  } else if (error instanceof NetworkError || error.code === 'ENOENT') {
    console.error(error.message);
  } else {
    throw error;
  }
  process.exitCode = 2;
} finally {
  dataflow.close();
}
