// Writes types.d.ts from console/openapi.json and lib/operations.js:  node sdk/node/tools/types.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import operations from '../lib/operations.js';

const api = JSON.parse(readFileSync(new URL('../../../console/openapi.json', import.meta.url)));
const target = new URL('../types.d.ts', import.meta.url);
const WIDTH = 150;
const anonymous = (path) => path.replace(/\{\w+\}/g, '{}');
const paths = Object.fromEntries(Object.entries(api.paths).map(([path, item]) => [anonymous(path), item]));
const deref = (part) => (part?.$ref ? part.$ref.slice(2).split('/').reduce((at, step) => at[step], api) : part);
const nameOf = (ref) => ref.split('/').pop();
const key = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : `'${name}'`);

function object(schema, indent) {
  const members = Object.entries(schema.properties ?? {}).map(([name, value]) =>
    `${key(name)}${schema.required?.includes(name) ? '' : '?'}: ${type(value, indent + '  ')};`);
  if (schema.additionalProperties) {
    const value = schema.additionalProperties === true || members.length ? 'unknown' : type(schema.additionalProperties, indent);
    members.push(`[name: string]: ${value};`);
  }
  if (!members.length) return 'Record<string, unknown>';
  const line = `{ ${members.join(' ').slice(0, -1)} }`;
  return line.length + indent.length < 100 && !line.includes('\n') ? line : `{\n${wrap(members, indent + '  ')}\n${indent}}`;
}

/** Members side by side, as many as a line takes. */
function wrap(members, indent) {
  const lines = [''];
  for (const member of members) {
    const last = lines[lines.length - 1];
    if (last && (last.length + member.length + indent.length >= WIDTH || member.includes('\n') || last.includes('\n'))) lines.push(member);
    else lines[lines.length - 1] = last ? `${last} ${member}` : member;
  }
  return lines.map((line) => indent + line).join('\n');
}

function type(schema, indent = '') {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.allOf) return schema.allOf.map((one) => type(one, indent)).join(' & ');
  const either = schema.oneOf ?? schema.anyOf;
  if (either && !schema.properties) return [...new Set(either.map((one) => type(one, indent)))].join(' | ');
  if ('const' in schema) return JSON.stringify(schema.const).replace(/"/g, "'");
  if (schema.enum) return schema.enum.map((one) => (one === null ? 'null' : typeof one === 'string' ? `'${one}'` : one)).join(' | ');
  const kinds = [schema.type ?? (schema.properties ? 'object' : undefined)].flat().filter(Boolean);
  if (!kinds.length) return 'unknown';
  return kinds.map((kind) => {
    if (kind === 'array') {
      const item = type(schema.items ?? {}, indent);
      return /[|&{]/.test(item) ? `Array<${item}>` : `${item}[]`;
    }
    if (kind === 'object') return object(schema, indent);
    return { integer: 'number', number: 'number', string: 'string', boolean: 'boolean', null: 'null' }[kind];
  }).join(' | ');
}

/** The answer's schemas: all of them that are JSON. */
function answers(operation) {
  const found = [];
  for (const [status, response] of Object.entries(operation.responses)) {
    const schema = status[0] === '2' && deref(response)?.content?.['application/json']?.schema;
    if (schema) found.push(...(schema.oneOf ?? schema.anyOf ?? [schema]));
  }
  return found;
}

function itemOf(schema) {
  const items = deref(schema)?.properties?.items;
  return items?.items ? type(items.items) : undefined;
}

function returned(operation, flags) {
  const is = (flag) => flags.includes(flag);
  if (is('text')) return 'Promise<string>';
  if (is('file')) return 'Promise<Download>';
  if (is('events')) return 'AsyncGenerator<BatchEvent, void, undefined>';
  if (!operation) return is('page') ? 'Pages<Answer>' : 'Promise<Answer>';
  const all = answers(operation);
  const pages = all.filter((schema) => deref(schema).properties?.page);
  if (is('page')) return `Pages<${itemOf(pages[0] ?? all[0]) ?? 'Answer'}>`;
  // A call with two methods, for one document and for lists.
  const one = flags.includes('?') && pages.length && all.length > 1 ? all.filter((schema) => !pages.includes(schema)) : all;
  const names = [...new Set(one.map((schema) => type(schema)))];
  return `Promise<${names.length ? names.join(' | ') : 'void'}>`;
}

function signature(name, text) {
  const [verb, path, ...flags] = text.split(' ');
  const item = paths[anonymous(path)];
  const operation = item?.[verb.toLowerCase()];
  const own = path.startsWith('/clients/{clientId}');
  const args = [...path.matchAll(/\{(\w+)\}/g)].slice(own ? 1 : 0).map((match) => `${match[1]}: string | number`);
  if (flags.includes('?')) {
    const parameters = [...(operation?.parameters ?? []), ...(item?.parameters ?? [])].map(deref).filter((p) => p.in === 'query');
    const members = parameters.map((p) => `${key(p.name)}${p.required ? '' : '?'}: ${type(p.schema ?? {})}${/date/.test(p.schema?.format ?? '') ? ' | Date' : ''}`);
    if (flags.includes('page') && parameters.length && !parameters.some((p) => p.name === 'after')) members.push('after?: string');
    args.push(`query${parameters.some((p) => p.required) ? '' : '?'}: ${members.length ? `{ ${members.join('; ')} }` : 'Query'}`);
  }
  if (flags.includes('=')) {
    const content = operation?.requestBody?.content?.['application/json'];
    const isRequired = operation?.requestBody?.required;
    args.push(`body${isRequired ? '' : '?'}: ${content ? type(content.schema) : 'Answer'}`);
  }
  args.push(own ? 'options?: OwnCallOptions' : 'options?: CallOptions');
  const summary = operation?.summary ? `: ${operation.summary}` : '';
  return [`/** \`${verb} ${path}\`${summary.endsWith('?') ? summary : summary + '.'} */`, `${name}(${args.join(', ')}): ${returned(operation, flags)};`];
}

const OWN = {
  imports: ['/** `POST /imports`: upload a file, streamed. */', 'upload: Upload<ImportAccepted>;',
    '/** `POST /imports/preview`: what an upload would come to; nothing is stored. */', `preview: Upload<${api.components.schemas.ImportPreview ? 'ImportPreview' : 'Answer'}>;`,
    '/** The batch when it is over: by events, else by asking. */', 'wait: Wait<Batch>;'],
  'admin.imports': ['/** The batch when it is over: by events, else by asking. */', 'wait: Wait<OperatorBatch>;'],
};

function groups() {
  const tree = { integrations: ['/** `/integrations/{name}/{path}`: a call through the server, with its retries and circuit breaker. */', 'call: IntegrationCall;'] };
  for (const [name, text] of Object.entries(operations)) {
    if (text.includes(' own')) continue;
    const at = name.lastIndexOf('.');
    (tree[name.slice(0, at)] ??= []).push(...signature(name.slice(at + 1), text));
  }
  for (const [group, lines] of Object.entries(OWN)) tree[group].unshift(...lines);
  return tree;
}

const lines = [
  '// Written by tools/types.mjs from console/openapi.json: not to be edited.',
  "import type { Answer, BatchEvent, CallOptions, Download, IntegrationCall, OwnCallOptions, Pages, Query, Upload, Wait } from './index.js';", '',
];
for (const [name, schema] of Object.entries(api.components.schemas)) {
  if (name === 'Problem') continue; // the error classes have its members
  const text = type(schema);
  lines.push(text.startsWith('{') && text.endsWith('}') && !schema.oneOf ? `export interface ${name} ${text}` : `export type ${name} = ${text};`);
}
lines.push('', '/** Every call of the server, by groups. */', 'export interface Calls {');
const admin = [];
for (const [group, members] of Object.entries(groups())) {
  const isAdmin = group.startsWith('admin.');
  const indent = isAdmin ? '    ' : '  ';
  (isAdmin ? admin : lines).push(`${indent}readonly ${group.replace('admin.', '')}: {`, ...members.map((line) => `${indent}  ${line}`), `${indent}};`);
}
lines.push('  /** With an admin key. */', '  readonly admin: {', ...admin, '  };', '}', '');
const text = lines.join('\n');
if (process.argv[2] === '--check') {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('sdk/node/types.d.ts is not what console/openapi.json says: run node sdk/node/tools/types.mjs');
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
