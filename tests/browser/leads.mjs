// Files of leads for the tests of imports, and what is done with them beside the page and on it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { ask, eventually, gateway } from './harness.mjs';

const lead = (i, more) => ({ Telefone: `11 9${String(i).padStart(8, '0')}`, Nome: `n${i}`, ...more });
export const leads = (count, more = () => ({})) => Buffer.from(JSON.stringify(Array.from({ length: count }, (_, i) => lead(i, more(i)))));
export const named = (buffer, name = `${randomUUID().slice(0, 8)}.json`) => ({ name, mimeType: 'application/octet-stream', buffer });
export const batchOf = (id) => ask(`${gateway.url}imports/${id}`, { method: 'GET', headers: gateway.headers });

// A call beside the page; the batch's id.
export async function upload(file, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', new Blob([file.buffer]), file.name);
  const answer = await fetch(`${gateway.url}imports`, { method: 'POST', headers: gateway.headers, body: form });
  assert.equal(answer.status, 202);
  return (await answer.json()).batchId;
}

export const ended = (id) => eventually(`the end of ${id}`, async () => {
  const batch = await batchOf(id);
  return ['Completed', 'CompletedWithErrors', 'Failed'].includes(batch.status) && batch;
});

export const hasStatus = (page, status) => page.locator(`#import-batch[data-status=${status}]`).waitFor();

export async function started(page, file) {
  await page.locator('#import-file').setInputFiles(file);
  await page.locator('#title', { hasText: file.name }).waitFor();
  await page.locator('#import-start').click();
}

export async function drop(page, name, content) {
  const data = await page.evaluateHandle(([n, c]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([c], n));
    return transfer;
  }, [name, content]);
  await page.dispatchEvent('#import-drop', 'drop', { dataTransfer: data });
}
