/*
 * Validates answers of a server with a validator of JSON Schema 2020-12, which is what OpenAPI 3.1 has for schemas.
 *
 *   node validate.cjs DIRECTORY DOCUMENT < [{"name": …, "schema": "#/components/schemas/X", "value": …}, …]
 *
 * DIRECTORY is where npm has installed package.json. Prints a line for each problem.
 */
const { createRequire } = require("module");
const fs = require("fs");
const path = require("path");

const load = createRequire(path.resolve(process.argv[2]) + "/");
const Ajv = load("ajv/dist/2020").default;
const addFormats = load("ajv-formats").default;

const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
for (const name of ["int32", "int64", "binary", "byte"]) ajv.addFormat(name, true); // of OpenAPI, not of JSON Schema
ajv.addSchema({ $id: "openapi", ...JSON.parse(fs.readFileSync(process.argv[3], "utf8")) });

const compiled = new Map();
for (const { name, schema, value } of JSON.parse(fs.readFileSync(0, "utf8"))) {
  if (!compiled.has(schema)) compiled.set(schema, ajv.compile({ $ref: "openapi" + schema }));
  const validate = compiled.get(schema);
  if (!validate(value))
    for (const error of validate.errors) console.log(`${name}: ${error.instancePath || "/"} ${error.message} (${error.schemaPath})`);
}
