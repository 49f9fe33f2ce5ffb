-- What a relay asks its source before it makes its own statements (sql.c): the table's columns, and its rights.

-- Written is the type as a cast takes it; Width is that of text; Nullable is 1 or 0. table: as configured; quoted: the
-- same, quoted.
-- name: relay_columns
-- dialect: sqlite
SELECT name AS Name, lower(type) AS Type, lower(type) AS Written, 0 AS Width, 1 - "notnull" AS Nullable FROM pragma_table_info(:table) WHERE :quoted <> '' ORDER BY cid;
-- dialect: postgres
SELECT a.attname AS Name, t.typname AS Type, format_type(t.oid, b.typmod) AS Written,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND b.typmod > 4 THEN b.typmod - 4 ELSE 0 END AS Width,
       CASE WHEN a.attnotnull OR d.typnotnull THEN 0 ELSE 1 END AS Nullable
FROM pg_attribute AS a
JOIN pg_type AS d ON d.oid = a.atttypid
CROSS JOIN LATERAL (SELECT CASE WHEN d.typtype = 'd' THEN d.typbasetype ELSE d.oid END AS oid,
                           CASE WHEN d.typtype = 'd' THEN d.typtypmod ELSE a.atttypmod END AS typmod) AS b
JOIN pg_type AS t ON t.oid = b.oid
WHERE a.attrelid = to_regclass(CAST(:quoted AS text)) AND a.attnum > 0 AND NOT a.attisdropped AND CAST(:table AS text) <> ''
ORDER BY a.attnum;
-- dialect: sqlserver
SELECT c.name, TYPE_NAME(c.system_type_id),
       TYPE_NAME(c.system_type_id)
           + CASE WHEN TYPE_NAME(c.system_type_id) IN ('nvarchar', 'nchar', 'varchar', 'char')
                  THEN '(' + CASE WHEN c.max_length = -1 THEN 'max'
                                  ELSE CAST(c.max_length / CASE WHEN TYPE_NAME(c.system_type_id) LIKE 'n%' THEN 2 ELSE 1 END AS VARCHAR(10)) END + ')'
                  ELSE '' END,
       CASE WHEN TYPE_NAME(c.system_type_id) IN ('nvarchar', 'nchar') AND c.max_length > 0 THEN c.max_length / 2
            WHEN TYPE_NAME(c.system_type_id) IN ('varchar', 'char') AND c.max_length > 0 THEN c.max_length
            ELSE 0 END,
       CAST(c.is_nullable AS INT)
FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(CAST(:quoted AS NVARCHAR(776))) AND CAST(:table AS NVARCHAR(776)) <> ''
ORDER BY c.column_id;

-- Whether the user may read and write, who the user is, whether an index leads to pending rows, and whether rows that
-- are read stay locked: 1 or 0. Babelfish speaks T-SQL but ignores UPDLOCK and READPAST.
-- name: relay_access
-- dialect: sqlite
SELECT 1 AS Reads, 1 AS Writes, 'the file''s owner' AS Who, 1 AS Indexed, 0 AS RowsLock WHERE :quoted <> '' AND :status <> '' AND :created <> '';
-- dialect: postgres
SELECT CASE WHEN has_table_privilege(r.oid, 'SELECT') OR has_any_column_privilege(r.oid, 'SELECT') THEN 1 ELSE 0 END,
       CASE WHEN has_any_column_privilege(r.oid, 'UPDATE') THEN 1 ELSE 0 END,
       CAST(current_user AS text),
       CASE WHEN EXISTS (SELECT 1 FROM pg_index AS i
                         JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                         WHERE i.indrelid = r.oid AND i.indisvalid
                           AND (a.attname = CAST(:status AS text) OR (a.attname = CAST(:created AS text) AND i.indpred IS NOT NULL)))
            THEN 1 ELSE 0 END,
       1
FROM (SELECT CAST(to_regclass(CAST(:quoted AS text)) AS oid) AS oid) AS r;
-- dialect: sqlserver
SELECT HAS_PERMS_BY_NAME(CAST(:quoted AS NVARCHAR(776)), 'OBJECT', 'SELECT'), HAS_PERMS_BY_NAME(CAST(:quoted AS NVARCHAR(776)), 'OBJECT', 'UPDATE'),
       USER_NAME(),
       CASE WHEN EXISTS (SELECT 1 FROM sys.index_columns AS ic
                         JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
                         WHERE ic.object_id = OBJECT_ID(CAST(:quoted AS NVARCHAR(776))) AND ic.key_ordinal = 1
                           AND c.name IN (CAST(:status AS NVARCHAR(128)), CAST(:created AS NVARCHAR(128))))
            THEN 1 ELSE 0 END,
       CASE WHEN CAST(SERVERPROPERTY('Babelfish') AS INT) = 1 THEN 0 ELSE 1 END;
