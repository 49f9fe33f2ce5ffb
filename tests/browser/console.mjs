// Modules and texts of the console that need no page, for tests without a browser and for tests in more than one language.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './harness.mjs';

const CONSOLE = join(ROOT, 'console');
const source = readFileSync(join(CONSOLE, 'pages/sha256.js'), 'utf8');
export const { sha256 } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

// By key: [English, Portuguese].
export const catalogue = Object.assign({}, ...readdirSync(join(CONSOLE, 'texts')).map((name) => new Function(readFileSync(join(CONSOLE, 'texts', name), 'utf8').replace(/^import .*$/gm, '').replace(/^add\(/m, 'return ('))()));

// What a page says: say('w.save'). Of texts with figures and names, their longest part that has none.
export const saying = (language) => (key) => {
  const forms = catalogue[key][language === 'pt' ? 1 : 0].split('|');
  return forms.at(-1).split(/\{\w+\}/).sort((a, b) => b.length - a.length)[0].trim();
};
