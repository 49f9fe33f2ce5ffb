// The console in a real browser, page by page, and that it asks nobody but its own server for anything.
//
//   node tests/browser/test.mjs [NAME]...    all of it, or the files *.page.mjs with such names; starts build/dataflow by itself
//   DATAFLOW_BIN                             another binary
//   CHROMIUM                                 another browser than /usr/bin/chromium
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const wanted = process.argv.slice(2);
const files = readdirSync(dirname(fileURLToPath(import.meta.url))).filter((name) => name.endsWith('.page.mjs')).sort();
for (const name of files) if (!wanted.length || wanted.includes(name.replace('.page.mjs', ''))) await import(`./${name}`);
for (const name of wanted.filter((one) => one.endsWith('.new'))) await import(`./${name}.mjs`);
