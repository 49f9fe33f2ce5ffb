// ExcelJS, streaming.
import ExcelJS from "exceljs";

const begun = process.hrtime.bigint();
const reader = new ExcelJS.stream.xlsx.WorkbookReader(process.argv[2], { sharedStrings: "cache", styles: "cache", worksheets: "emit" });
let records = -1; // the header
for await (const sheet of reader) for await (const row of sheet) records += row.values.length > 0;
const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
console.log(JSON.stringify({ records, seconds }));
