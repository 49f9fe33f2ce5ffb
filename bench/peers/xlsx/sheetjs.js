// SheetJS: the whole workbook into memory, then rows as objects.
import XLSX from "xlsx";

const begun = process.hrtime.bigint();
const book = XLSX.readFile(process.argv[2], { dense: true, cellDates: true });
const rows = XLSX.utils.sheet_to_json(book.Sheets[book.SheetNames[0]]);
const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
console.log(JSON.stringify({ records: rows.length, seconds }));
