// A module of the console that needs no page, for a test without a browser.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './harness.mjs';

const source = readFileSync(join(ROOT, 'console/pages/sha256.js'), 'utf8');
export const { sha256 } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
