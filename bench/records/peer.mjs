// The work of `dataflow-bench records FILE --normalise --count`, as one would write it for Node:
//   node peer.mjs parse|stream|csv FILE
// The rules are those that the file needs: names, Brazilian phones, origin, property, lead context, repeats.
import fs from "node:fs";

const FIELDS = {
  phonenumber: "PhoneNumber", telefone: "PhoneNumber", celular: "PhoneNumber", phone: "PhoneNumber",
  origin: "Origin", origem: "Origin", source: "Origin",
  property: "PropertyContextJson", imovel: "PropertyContextJson", propertycontextjson: "PropertyContextJson",
  name: "Name", nome: "Name", email: "Email", city: "City", cidade: "City", notes: "Notes", observacoes: "Notes",
  budget: "Budget", orcamento: "Budget",
};
const AREAS = new Set((
  "11 12 13 14 15 16 17 18 19 21 22 24 27 28 31 32 33 34 35 37 38 41 42 43 44 45 46 47 48 49 51 53 54 55 " +
  "61 62 63 64 65 66 67 68 69 71 73 74 75 77 79 81 82 83 84 85 86 87 88 89 91 92 93 94 95 96 97 98 99"
).split(" "));

const known = new Map();
function fieldOf(name) {
  let field = known.get(name);
  if (field === undefined) {
    const folded = name.normalize("NFD").replace(/[^a-zA-Z0-9]/g, "").toLowerCase();
    field = FIELDS[folded] ?? null;
    known.set(name, field);
  }
  return field;
}

function phoneOf(value) {
  if (value === null || value === undefined) return null;
  let d = String(value).replace(/\D/g, "");
  if ((d.length === 12 || d.length === 13) && d.startsWith("55")) d = d.slice(2);
  if ((d.length !== 10 && d.length !== 11) || !AREAS.has(d.slice(0, 2))) return null;
  if (d.length === 11) return d[2] === "9" ? "+55" + d : null;
  if (d[2] < "2") return null;
  return d[2] < "6" ? "+55" + d : "+55" + d.slice(0, 2) + "9" + d.slice(2);
}

function propertyOf(value) {
  if (value === null || value === undefined || value === "") return null;
  if (typeof value === "object") return value;
  if (typeof value === "string" && (value[0] === "{" || value[0] === "[")) {
    try { return JSON.parse(value); } catch { /* a text like any other */ }
  }
  return { description: value };
}

const seen = new Set();
const counts = { records: 0, send: 0, error: 0, skipped: 0, bytes: 0 };

function take(record) {
  let phone = null, origin = null, property = null;
  const lead = {};
  for (const name in record) {
    let value = record[name];
    if (typeof value === "string") value = value.trim();
    const field = fieldOf(name);
    if (field === "PhoneNumber") phone = value;
    else if (field === "Origin") origin = value;
    else if (field === "PropertyContextJson") property = value;
    else lead[field ?? name] = value;
  }
  const number = phoneOf(phone);
  const body = JSON.stringify({
    PhoneNumber: number ?? phone,
    Origin: origin ? String(origin).replace(/\s+/g, " ") : "bench",
    PropertyContextJson: propertyOf(property),
    LeadContextJson: lead,
  });
  const item = `{"sequence":${counts.records++},${body.slice(1)}`;
  counts.bytes += item.length;
  if (number === null) counts.error++;
  else if (seen.has(body)) counts.skipped++;
  else { seen.add(body); counts.send++; }
}

const [how, path] = process.argv.slice(2);
let run;
if (how === "parse") {
  run = async () => { for (const record of JSON.parse(fs.readFileSync(path, "utf8"))) take(record); };
} else if (how === "stream") {
  const found = await import("stream-json/streamers/stream-array.js");
  const streamArray = found.default ?? found;
  run = async () => {
    const pipeline = (streamArray.withParserAsStream ?? streamArray.withParser)();
    fs.createReadStream(path, { highWaterMark: 1 << 18 }).pipe(pipeline);
    for await (const { value } of pipeline) take(value);
  };
} else {
  const { parse } = await import("csv-parse");
  run = async () => {
    const parser = fs.createReadStream(path, { highWaterMark: 1 << 18 })
      .pipe(parse({ columns: true, delimiter: ";", relax_column_count: true }));
    for await (const record of parser) take(record);
  };
}
const begun = process.hrtime.bigint();
await run();
const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
const usage = process.resourceUsage();
const cpuSeconds = (usage.userCPUTime + usage.systemCPUTime) / 1e6;
console.log(JSON.stringify({ ...counts, seconds, cpuSeconds, peakKb: usage.maxRSS }));
