"""The checker of T-SQL, which stands in for a SQL Server where none can run: what it takes, what it refuses and with
which words, and how much of what goes wrong in the shipped scripts and queries it sees."""

import copy
import pickle
import random
import subprocess
import sys

import check_tsql
import pytest
import tsql
from harness import ROOT

pytestmark = pytest.mark.tools

SETTINGS = """\
SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO
"""
SCHEMA = SETTINGS + """
IF OBJECT_ID(N'Orders', N'U') IS NULL
CREATE TABLE Orders (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_Orders PRIMARY KEY CLUSTERED,
    Code VARCHAR(20) NOT NULL,
    Name NVARCHAR(100) NULL,
    Status VARCHAR(10) NOT NULL CONSTRAINT DF_Orders_Status DEFAULT 'Pending',
    Attempts INT NOT NULL CONSTRAINT DF_Orders_Attempts DEFAULT 0,
    IsDeleted BIT NOT NULL CONSTRAINT DF_Orders_IsDeleted DEFAULT 0,
    Owner UNIQUEIDENTIFIER NULL,
    MadeAt DATETIME2 NOT NULL CONSTRAINT DF_Orders_MadeAt DEFAULT SYSUTCDATETIME(),
    Hash VARBINARY(32) NULL,
    Payload NVARCHAR(MAX) NULL
);
IF OBJECT_ID(N'Items', N'U') IS NULL
CREATE TABLE Items (
    OrderId BIGINT NOT NULL CONSTRAINT FK_Items_Orders REFERENCES Orders (Id) ON DELETE CASCADE,
    Position INT NOT NULL,
    Name NVARCHAR(100) NULL,
    CONSTRAINT PK_Items PRIMARY KEY CLUSTERED (OrderId, Position)
);
IF OBJECT_ID(N'Journal', N'U') IS NULL
CREATE TABLE Journal (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_Journal PRIMARY KEY CLUSTERED,
    Line NVARCHAR(100) NOT NULL
);
GO
DROP TRIGGER IF EXISTS TR_Journal_Kept;
GO
CREATE TRIGGER TR_Journal_Kept ON Journal INSTEAD OF UPDATE, DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted WHERE Line IS NOT NULL)
        RAISERROR(N'Journal is kept', 16, 1);
END;
GO
"""


def of_script(text, catalogue=None):
    """[(line, message)] for a script on a database that is empty, or has what the catalogue says."""
    found = []
    catalogue = catalogue or check_tsql.Catalogue()
    check_tsql.check_script(text, catalogue, lambda line, message: found.append((line, message)))
    check_tsql.check_asked(catalogue)
    check_tsql.check_cascades(catalogue)
    return found


def made(*scripts):
    catalogue = check_tsql.Catalogue()
    for script in scripts:
        assert of_script(script, catalogue) == []
    return catalogue


CATALOGUE = made(SCHEMA)


def of_query(text, catalogue=CATALOGUE, line=1):
    found = []
    check_tsql.check_query(text, line, copy.copy(catalogue), lambda at, message: found.append((at, message)))
    return found


# --- what is taken -----------------------------------------------------------------------------------

GOOD = [
    "SELECT Id, Name FROM Orders WHERE Id = :id",
    "SELECT Id FROM Orders WHERE Code = CAST(:code AS VARCHAR(21))",
    "SELECT Id FROM Orders WHERE Code IN (CAST(:a AS VARCHAR(21)), CAST(:b AS VARCHAR(21)), 'x') AND Status <> 'Done'",
    "SELECT Id FROM Orders WHERE Name = :name AND Owner = :owner AND MadeAt < :before AND Attempts >= :attempts",
    "SELECT TOP (:n) Id FROM Orders ORDER BY MadeAt DESC, Id",
    "SELECT DISTINCT Status FROM Orders ORDER BY Status",
    "SELECT Id FROM Orders ORDER BY Id OFFSET :o ROWS FETCH NEXT :n ROWS ONLY",
    "SELECT Id FROM Orders ORDER BY Id OFFSET (:o + 1) ROWS FETCH FIRST (10) ROWS ONLY",
    "SELECT COUNT(*) FROM Orders",
    "SELECT Status, COUNT(*) AS n, MIN(MadeAt) AS Oldest FROM Orders GROUP BY Status HAVING COUNT(*) > 1 ORDER BY n",
    "SELECT CAST(MadeAt AS DATE) AS Day, SUM(Attempts) FROM Orders GROUP BY CAST(MadeAt AS DATE) "
    "ORDER BY CAST(MadeAt AS DATE)",
    "SELECT [Id], \"Name\" FROM [Orders]",
    "SELECT o.Id, i.Name FROM Orders AS o INNER JOIN Items AS i ON i.OrderId = o.Id WHERE o.IsDeleted = 0",
    "SELECT o.Id, i.Position FROM Orders o LEFT OUTER JOIN Items i ON i.OrderId = o.Id AND i.Position = 1",
    "SELECT o.Id, Position FROM Orders AS o CROSS JOIN Items",
    "SELECT o.Id, f.Name FROM Orders AS o CROSS APPLY (SELECT TOP (1) i.Name FROM Items AS i WHERE i.OrderId = o.Id "
    "ORDER BY i.Position) AS f",
    "SELECT x.n FROM (SELECT Status, COUNT(*) AS n FROM Orders GROUP BY Status) AS x WHERE x.n > 3",
    "SELECT v.a, v.b FROM (VALUES (1, N'x'), (2, N'y')) AS v (a, b)",
    "WITH late AS (SELECT Id, Name FROM Orders WHERE MadeAt < :t), few (a) AS (SELECT Id FROM late) SELECT a FROM few",
    "SELECT Id FROM Orders WHERE EXISTS (SELECT 1 FROM Items WHERE OrderId = Orders.Id)",
    "SELECT Id FROM Orders WHERE Id NOT IN (SELECT OrderId FROM Items)",
    "SELECT Id FROM Orders WHERE Name LIKE :p ESCAPE '!' OR Code LIKE 'a%' OR Attempts NOT BETWEEN 1 AND :most",
    "SELECT CASE WHEN Attempts > 3 THEN 'many' ELSE Status END, CASE Status WHEN 'Done' THEN 1 ELSE 0 END FROM Orders",
    "SELECT COALESCE(Name, N''), ISNULL(Attempts, 0), IIF(IsDeleted = 1, N'yes', N'no'), LEFT(Code, 3), LEN(Name), "
    "CONVERT(VARCHAR(30), MadeAt, 126), TRY_CAST(Code AS INT), -Attempts, (Attempts + 1) * 2 % 3 FROM Orders",
    "SELECT DATEADD(MINUTE, -:m, SYSUTCDATETIME()), DATEDIFF_BIG(MILLISECOND, MadeAt, :now) FROM Orders",
    "SELECT Id, ROW_NUMBER() OVER (PARTITION BY Status ORDER BY MadeAt) AS n, SUM(Attempts) OVER () AS s, "
    "SUM(Attempts) OVER (ORDER BY Id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM Orders",
    "SELECT Id FROM Orders UNION ALL SELECT OrderId FROM Items ORDER BY Id",
    "SELECT (SELECT MAX(i.Position) FROM Items AS i WHERE i.OrderId = o.Id) AS Last FROM Orders AS o",
    "SELECT Name COLLATE Latin1_General_BIN2 FROM Orders ORDER BY Name COLLATE Latin1_General_BIN2",
    "SELECT j.id, j.name FROM OPENJSON(:rows) WITH (id BIGINT '$.id', name NVARCHAR(100) '$.name', "
    "rest NVARCHAR(MAX) AS JSON) AS j",
    "SELECT value FROM STRING_SPLIT(:list, ',')",
    "SELECT Id FROM Orders WITH (UPDLOCK, READPAST, ROWLOCK) WHERE Status = 'Pending'",
    "SELECT COUNT(*) FROM sys.tables WHERE name = :name",
    "SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID(:table) AND name = :column",
    "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = :table OPTION (RECOMPILE, MAXDOP 1)",
    "INSERT INTO Orders (Code, Name) VALUES (:code, :name), (N'b', NULL)",
    "INSERT INTO Orders (Code, MadeAt) OUTPUT inserted.Id, inserted.MadeAt AS At VALUES (:code, DEFAULT)",
    "INSERT INTO Orders (Code) SELECT Name FROM Items ORDER BY Position",
    "INSERT INTO Items (OrderId, Position) SELECT :order, CAST(j.[key] AS INT) FROM OPENJSON(:rows) AS j",
    "DECLARE @t TABLE (Id INT IDENTITY(1,1) NOT NULL, Name NVARCHAR(9) NULL) INSERT INTO @t DEFAULT VALUES",
    "UPDATE Orders SET Status = 'Done', Attempts = Attempts + 1, Name = DEFAULT WHERE Id = :id",
    "UPDATE Orders SET Attempts = Orders.Attempts + 1 OUTPUT inserted.Id, deleted.Status WHERE Orders.Id = :id",
    "UPDATE Orders SET Status = 'Sending', Attempts = Attempts + 1\nOUTPUT inserted.Id, inserted.Payload\n"
    "WHERE Id IN (SELECT TOP (:n) c.Id FROM Orders AS c WITH (UPDLOCK, READPAST, ROWLOCK)\n"
    "    WHERE c.Status = 'Pending' ORDER BY c.MadeAt, c.Id)",
    "UPDATE TOP (5) Orders SET IsDeleted = 1 WHERE Status = 'Done'",
    "UPDATE Orders WITH (UPDLOCK, HOLDLOCK) SET Name = :name WHERE Code = CAST(:code AS VARCHAR(21))\n"
    "IF @@ROWCOUNT = 0 INSERT INTO Orders (Code, Name) VALUES (:code, :name)",
    "DELETE FROM Orders WHERE Id = :id",
    "UPDATE Items SET OrderId = o.Id OUTPUT inserted.OrderId, o.Status FROM Orders AS o WHERE o.Id = Items.OrderId",
    "UPDATE Items SET Name = p.Name OUTPUT inserted.OrderId, p.Status FROM Orders AS o JOIN Orders AS p ON p.Id = o.Id\n"
    "WHERE o.Id = Items.OrderId",
    "DELETE TOP (:n) FROM Items OUTPUT deleted.OrderId WHERE OrderId = :id",
    "DELETE Items FROM Items JOIN Orders AS o ON o.Id = Items.OrderId WHERE o.IsDeleted = 1",
    "DECLARE @made TABLE (Id BIGINT NOT NULL, Line NVARCHAR(100) NULL)\n"
    "INSERT INTO Journal (Line) OUTPUT inserted.Id, inserted.Line INTO @made (Id, Line) VALUES (:line)\n"
    "SELECT m.Id FROM @made AS m",
    "DECLARE @n INT = 0, @id BIGINT SELECT @id = MAX(Id) FROM Orders SET @n += 1 WHILE @n < 3 SET @n = @n + 1",
    "DECLARE @r INT\nEXEC @r = sp_getapplock @Resource = N'x', @LockMode = 'Exclusive', @LockTimeout = :ms\nSELECT @r",
    "BEGIN TRY UPDATE Orders SET Attempts = 1 WHERE Id = :id END TRY BEGIN CATCH IF @@TRANCOUNT > 0 ROLLBACK; THROW; "
    "END CATCH",
    "IF (SELECT COUNT(*) FROM Orders) > :most THROW 50001, N'too many', 1; ELSE PRINT N'fine'",
    "BEGIN TRANSACTION SAVE TRANSACTION s ROLLBACK TRANSACTION s COMMIT TRANSACTION",
    "SELECT 1 -- one\n/* and /* nested */ */",
    "TRUNCATE TABLE Items",
    "SET LOCK_TIMEOUT 1000 SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_text_is_taken(text):
    assert of_query(text) == []


GOOD_SCRIPTS = [
    "IF COL_LENGTH(N'Orders', N'Color') IS NULL\n    ALTER TABLE Orders ADD Color INT NULL;\nGO\n"
    "UPDATE Orders SET Color = 1 WHERE Color IS NULL;\n",
    "IF COL_LENGTH(N'Orders', N'A') IS NULL AND OBJECT_ID(N'CK_a', N'C') IS NULL\n"
    "    ALTER TABLE Orders ADD A INT NULL, CONSTRAINT CK_a CHECK (A > 0);\n",
    "IF COL_LENGTH(N'Orders', N'Color') IS NULL\nBEGIN\n    ALTER TABLE Orders ADD Color INT NULL;\n"
    "    EXEC(N'UPDATE Orders SET Color = 1 WHERE Name = N''it''''s''');\nEND;\n",
    SETTINGS + "IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'Orders') AND name = N'IX_a')\n"
    "    CREATE UNIQUE NONCLUSTERED INDEX IX_a ON Orders (Status, MadeAt DESC) INCLUDE (Name)\n"
    "        WHERE Status IN ('Pending', 'Error') AND Name IS NOT NULL;\n",
    "DROP INDEX IF EXISTS IX_b ON Orders;\nCREATE INDEX IX_b ON Orders (Name);\n",
    "IF OBJECT_ID(N'CK_a', N'C') IS NULL\n"
    "    ALTER TABLE Orders ADD CONSTRAINT CK_a CHECK (Attempts BETWEEN 0 AND 9);\n",
    "IF NOT EXISTS (SELECT 1 FROM sys.foreign_keys WHERE parent_object_id = OBJECT_ID(N'Journal')\n"
    "               AND referenced_object_id = OBJECT_ID(N'Orders'))\n"
    "    ALTER TABLE Journal ADD CONSTRAINT FK_a FOREIGN KEY (Id) REFERENCES Orders (Id) ON UPDATE NO ACTION;\n",
    "IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'Orders') AND name = N'Name'\n"
    "           AND default_object_id = 0)\n    ALTER TABLE Orders ADD CONSTRAINT DF_a DEFAULT N'' FOR Name;\n",
    "IF EXISTS (SELECT 1 FROM sys.tables WHERE name = N'Made')\n    PRINT N'there'\nELSE\n"
    "    CREATE TABLE Made (Id INT NOT NULL CONSTRAINT PK_Made PRIMARY KEY);\n",
    "IF OBJECT_ID(N'TR_a', N'TR') IS NULL\n    EXEC(N'CREATE TRIGGER TR_a ON Items AFTER INSERT AS SELECT 1');\n",
    "INSERT INTO Journal (Line) SELECT N'x' WHERE NOT EXISTS (SELECT 1 FROM Journal WHERE Line = N'x');\n",
    "IF NOT EXISTS (SELECT 1 FROM Journal WHERE Id = 1)\nBEGIN\n    SET IDENTITY_INSERT Journal ON;\n"
    "    INSERT INTO Journal (Id, Line) VALUES (1, N'não \U0001f600');\n    SET IDENTITY_INSERT Journal OFF;\nEND;\n",
    "IF COL_LENGTH(N'Items', N'Name') IS NOT NULL\n    ALTER TABLE Items ALTER COLUMN Name NVARCHAR(200);\n",
    "ALTER TABLE Orders DROP CONSTRAINT IF EXISTS DF_Orders_Attempts;\nGO\n-- GO\nPRINT N'GO';\ngo\n",
]


@pytest.mark.parametrize("text", GOOD_SCRIPTS)
def test_good_script_is_taken(text):
    assert of_script(text, copy.deepcopy(CATALOGUE)) == []


# --- what is refused ---------------------------------------------------------------------------------

BAD = [
    # Other dialects.
    ("SELECT Id FROM Orders\nORDER BY Id\nLIMIT :n", 3, "no LIMIT: TOP"),
    ("SELECT Id FROM Orders LIMIT 1", 1, "no LIMIT"),
    ("INSERT INTO Orders (Code)\nVALUES (:c)\nRETURNING Id", 3, "no RETURNING: OUTPUT"),
    ("INSERT INTO Orders (Code) VALUES (:c)\nON CONFLICT (Code) DO NOTHING", 2, "no ON CONFLICT"),
    ("INSERT OR IGNORE INTO Orders (Code) VALUES (:c)", 1, "no INSERT OR IGNORE"),
    ("SELECT Id FROM Orders WHERE Name ILIKE 'x'", 1, "no ILIKE"),
    ("SELECT Id FROM Orders WHERE Name NOT ILIKE 'x'", 1, "no ILIKE"),
    ("SELECT Id::text FROM Orders", 1, "CAST(x AS type)"),
    ("SELECT Code || N'x' FROM Orders", 1, "CONCAT"),
    ("SELECT Id FROM Orders WHERE IsDeleted = TRUE", 1, "a BIT is 1"),
    ("SELECT Id FROM Orders WHERE IsDeleted = false", 1, "a BIT is 0"),
    ("SELECT Id FROM Orders WHERE IsDeleted", 1, "takes no value for a condition"),
    ("SELECT Id FROM Orders WHERE NOT IsDeleted", 1, "compare it"),
    ("SELECT Attempts > 1 FROM Orders", 1, "CASE WHEN"),
    ("UPDATE Orders SET MadeAt = NOW() WHERE Id = :id", 1, "SYSUTCDATETIME()"),
    ("UPDATE Orders SET MadeAt = CURRENT_TIMESTAMP WHERE Id = :id", 1, "local time"),
    ("SELECT CURRENT_TIMESTAMP(3)", 1, "local time"),
    ("SELECT GETDATE()", 1, "local time"),
    ("SELECT strftime('%Y', MadeAt) FROM Orders", 1, "SQLite's"),
    ("SELECT length(Name) FROM Orders", 1, "LEN"),
    ("SELECT CAST(Id AS TEXT) FROM Orders", 1, "NVARCHAR(MAX)"),
    ("SELECT CAST(Id AS BOOLEAN) FROM Orders", 1, "no BOOLEAN: BIT"),
    ("SELECT Id FROM Orders ORDER BY Id NULLS LAST", 1, "NULLS"),
    ("SELECT Id FROM Orders FOR UPDATE SKIP LOCKED", 1, "UPDLOCK"),
    ("SELECT o.Id FROM Orders o JOIN Items i USING (Id)", 1, "JOIN … ON"),
    ("SELECT COUNT(*) FILTER (WHERE Attempts = 1) FROM Orders", 1, "SUM(CASE"),
    ("SELECT Id FROM Orders WHERE MadeAt < SYSUTCDATETIME() - INTERVAL '1 day'", 1, "DATEADD"),
    ("SELECT Payload->>'a' FROM Orders", 1, "JSON_VALUE"),
    ("SELECT E'x'", 1, "a comma is missing"),
    ("SELECT x'00'", 1, "a comma is missing"),
    ("SELECT $1", 1, "'$' means nothing"),
    ("SELECT ?", 1, "'?' means nothing"),
    # Newer than 2016.
    ("SELECT STRING_AGG(Name, N',') FROM Orders", 1, "newer than SQL Server 2016"),
    ("SELECT TRIM(Name) FROM Orders", 1, "LTRIM(RTRIM(x))"),
    ("SELECT CONCAT_WS(N',', Name, Code) FROM Orders", 1, "newer"),
    ("SELECT GREATEST(Attempts, 1) FROM Orders", 1, "newer"),
    ("SELECT LEAST(Attempts, 1) FROM Orders", 1, "newer"),
    ("SELECT DATETRUNC(DAY, MadeAt) FROM Orders", 1, "newer"),
    ("SELECT value FROM GENERATE_SERIES(1, 3)", 1, "newer"),
    ("SELECT Id FROM Orders WHERE Name IS NOT DISTINCT FROM :n", 1, "newer"),
    # Syntax.
    ("SELECT", 1, "expected a value"),
    ("SELECT Id FROM", 1, "expected a table"),
    ("SELECT Id, FROM Orders", 1, "expected a value"),
    ("SELECT Id Name FROM Orders", 1, "a comma is missing"),
    ("SELECT Id FROM Orders WHERE", 1, "expected a value"),
    ("SELECT Id FROM Orders WHERE Id = 1 AND", 1, "expected a value"),
    ("SELECT Id FROM Orders\nWHERE (Id = 1", 2, "expected )"),
    ("SELECT Id FROM Orders WHERE Id = 1)", 1, "expected a statement"),
    ("SELECT Id FROM Orders, Items", 1, "JOIN"),
    ("SELECT TOP :n Id FROM Orders ORDER BY Id", 1, "TOP (n)"),
    ("SELECT TOP 1 Id FROM Orders ORDER BY Id", 1, "TOP (n)"),
    ("SELECT Id FROM Orders OFFSET 1 ROWS", 1, "OFFSET needs ORDER BY"),
    ("SELECT Id FROM Orders ORDER BY Id FETCH NEXT 1 ROWS ONLY", 1, "FETCH needs OFFSET"),
    ("SELECT Id FROM Orders ORDER BY Id OFFSET :o FETCH NEXT 1 ROWS ONLY", 1, "expected ROWS"),
    ("SELECT Id INTO Other FROM Orders", 1, "makes a table"),
    ("SELECT Id FROM Orders WHERE Id IN ()", 1, "expected a value"),
    ("SELECT CASE Id END FROM Orders", 1, "expected WHEN"),
    ("SELECT CAST(Id AS VARCHAR) FROM Orders", 1, "expected ("),
    ("SELECT CAST(Id AS VARCHAR(9000)) FROM Orders", 1, "1 to 8000 or MAX"),
    ("SELECT ROW_NUMBER() FROM Orders", 1, "needs a window"),
    ("SELECT ROW_NUMBER() OVER (PARTITION BY Status) FROM Orders", 1, "needs an order"),
    ("SELECT LEN(Name) OVER () FROM Orders", 1, "takes no OVER"),
    ("SELECT LEN() FROM Orders", 1, "LEN takes 1 arguments, not 0"),
    ("SELECT FROBNICATE(Id) FROM Orders", 1, "unknown function FROBNICATE"),
    ("SELECT @@FOO", 1, "unknown @@FOO"),
    ("SELECT Id FROM Orders (UPDLOCK)", 1, "expected a statement"),
    ("SELECT Id FROM Orders WITH (FASTLOCK)", 1, "expected a table hint"),
    ("SELECT 'x", 1, "unterminated '"),
    ("SELECT [x FROM Orders", 1, "unterminated ["),
    ("SELECT 1 /* x\n/* */", 1, "unterminated comment"),
    ("SELECT 12ab FROM Orders", 1, "'1' means nothing"),
    ("SELECT Key FROM Orders", 1, "[Key]"),
    ("SELECT Id FROM Orders AS Order", 1, "[Order]"),
    ("INSERT INTO Orders VALUES (1)", 1, "INSERT names its columns"),
    ("INSERT Orders (Code) VALUES (:c)", 1, "expected INTO"),
    ("BEGIN END", 1, "expected a statement"),
    ("BEGIN SELECT 1", 1, "expected END"),
    ("DECLARE @x INT\nWITH a AS (SELECT 1 AS x) SELECT x FROM a", 2, "WITH needs a semicolon before it"),
    ("SELECT 1\nTHROW 50000, N'x', 1", 2, "THROW needs a semicolon before it"),
    ("THROW 4711, N'x', 1", 1, "from 50000 on"),
    ("THROW", 1, "stands in a CATCH"),
    ("RAISERROR(N'x', 16)", 1, "expected ,"),
    ("THROW 50001, 1, N'x'", 1, "expected a string or a variable"),
    ("EXEC sp_releaseapplock @Resource = N'x', @Resource = N'y'", 1, "expected one of @LockOwner"),
    ("SELECT Name COLLATE Name FROM Orders", 1, "expected a collation"),
    ("SELECT Id COLLATE Latin1_General_BIN2 FROM Orders", 1, "COLLATE of BIGINT"),
    ("SELECT SUM(Status) FROM Orders", 1, "SUM of VARCHAR(10)"),
    ("SELECT Id FROM Orders UPDLOCK", 1, "expected a statement"),
    ("SELECT 1;;", 1, "an empty statement"),
    ("EXEC(@sql)", 1, "cannot be checked"),
    ("EXEC sp_who", 1, "unknown procedure"),
    ("EXEC(N'SELECT Nme FROM Orders')", 1, "no column 'Nme'"),
    ("GRANT SELECT ON Orders TO x", 1, "expected a statement"),
    ("SELECT Id FROM Orders\nGO", 2, "'GO'"),
    # Names.
    ("SELECT Id FROM Ordres", 1, "no table 'Ordres'; is 'Orders' meant?"),
    ("SELECT Id,\n  Nane\nFROM Orders", 2, "no column 'Nane' in Orders; is 'Name' meant?"),
    ("SELECT o.Nane FROM Orders AS o", 1, "no column 'Nane' in o"),
    ("SELECT x.Id FROM Orders AS o", 1, "no table or alias 'x' here"),
    ("SELECT Orders.Id FROM Orders AS o", 1, "no table or alias 'Orders' here"),
    ("SELECT id FROM Orders", 1, "'id' is written 'Id'"),
    ("SELECT Id FROM orders", 1, "'orders' is written 'Orders'"),
    ("SELECT Name FROM Orders AS o JOIN Items AS i ON i.OrderId = o.Id", 1, "'Name' is ambiguous: o and i have it"),
    ("SELECT Orders.Id FROM Orders JOIN Orders ON 1 = 1", 1, "stands twice in FROM"),
    ("SELECT Id FROM Orders WHERE Id IN (SELECT Attempts FROM Items)", 1, "column of the outer query"),
    ("SELECT o.Id FROM Orders o JOIN Items i ON i.OrderId = p.Id JOIN Orders p ON p.Id = o.Id", 1, "alias 'p'"),
    ("SELECT x.Id FROM (SELECT Name FROM Orders) AS x", 1, "no column 'Id' in x"),
    ("SELECT x.n FROM (SELECT COUNT(*) FROM Orders) AS x", 1, "column 1 needs a name"),
    ("SELECT x.Id FROM (SELECT o.Id, p.Id FROM Orders AS o JOIN Orders AS p ON p.Id = o.Id) AS x", 1,
     "two columns are called 'Id'"),
    ("WITH a (x, y) AS (SELECT Id FROM Orders) SELECT x FROM a", 1, "2 names for 1 columns"),
    ("SELECT v.b FROM (VALUES (1), (2)) AS v (a)", 1, "no column 'b'"),
    ("SELECT v.a FROM (VALUES (1), (2, 3)) AS v (a)", 1, "2 values for 1 columns"),
    ("SELECT j.b FROM OPENJSON(:x) WITH (a INT '$.a') AS j", 1, "no column 'b' in j"),
    ("SELECT j.a FROM OPENJSON(:x) WITH (a INT 'a') AS j", 1, "JSON path"),
    ("SELECT Id FROM dbo.Orders", 1, "names are written alone"),
    ("SELECT name FROM sys.tabels", 1, "no view 'sys.tabels'"),
    ("SELECT nam FROM sys.tables", 1, "no column 'nam'"),
    ("SELECT OBJECT_ID(N'Orders', N'U', 1)", 1, "1 to 2 arguments"),
    ("SELECT @x", 1, "no variable '@x'"),
    ("DECLARE @x INT SET @y = 1", 1, "no variable '@y'"),
    ("DECLARE @x INT DECLARE @x INT", 1, "declared twice"),
    ("SELECT a FROM @t", 1, "not declared as a table"),
    ("DECLARE @n INT SELECT @n = 1, Id FROM Orders", 1, "either sets variables or returns rows"),
    ("SELECT Id FROM Orders UNION SELECT OrderId, Position FROM Items", 1, "2 columns here, 1 in the first"),
    ("SELECT Id FROM Orders UNION SELECT OrderId FROM Items ORDER BY OrderId", 1, "no column 'OrderId'"),
    ("SELECT Id FROM Orders WHERE Id = (SELECT OrderId, Position FROM Items)", 1, "2 columns for one value"),
    ("SELECT Id FROM Orders WHERE Id IN (SELECT OrderId, Position FROM Items)", 1, "2 columns after IN"),
    ("SELECT Status, Name FROM Orders GROUP BY Status", 1, "'Name' is neither in GROUP BY nor"),
    ("SELECT Name, COUNT(*) FROM Orders", 1, "'Name' is neither"),
    ("SELECT Status FROM Orders GROUP BY Status HAVING Attempts > 1", 1, "'Attempts' is neither"),
    ("SELECT Status FROM Orders GROUP BY Status ORDER BY MadeAt", 1, "'MadeAt' is neither"),
    ("SELECT Id FROM Orders WHERE COUNT(*) > 1", 1, "COUNT in WHERE"),
    ("SELECT SUM(COUNT(*)) FROM Orders", 1, "an aggregate inside SUM"),
    ("SELECT DISTINCT Status FROM Orders ORDER BY Id", 1, "DISTINCT"),
    ("SELECT Id FROM Orders ORDER BY 1", 1, "ORDER BY takes a column"),
    ("SELECT x.Id FROM (SELECT Id FROM Orders ORDER BY Id) AS x", 1, "does nothing without TOP"),
    ("INSERT INTO Orders (Code, Nane) VALUES (:c, :n)", 1, "no column 'Nane' in Orders"),
    ("INSERT INTO Orders (Code, Name) VALUES (:c)", 1, "1 values for 2 columns"),
    ("INSERT INTO Orders (Code, Name) SELECT Code FROM Orders", 1, "1 values for 2 columns"),
    ("INSERT INTO Orders (Code, Code) VALUES (:c, :d)", 1, "'Code' stands twice"),
    ("INSERT INTO Orders (Name) VALUES (:n)", 1, "Orders.Code is NOT NULL without a default"),
    ("INSERT INTO Journal DEFAULT VALUES", 1, "Journal.Line is NOT NULL"),
    ("INSERT INTO Orders (Id, Code) VALUES (:id, :c)", 1, "the database gives its value"),
    ("INSERT INTO Orders (Code) VALUES (NULL)", 1, "'Code' is NOT NULL"),
    ("UPDATE Orders SET Id = 1 WHERE Id = 2", 1, "cannot be changed"),
    ("UPDATE Orders SET Name = :a, Name = :b WHERE Id = 2", 1, "'Name' stands twice"),
    ("UPDATE Orders SET Code = NULL WHERE Id = 2", 1, "'Code' is NOT NULL"),
    ("UPDATE Orders SET Status = 'much too long' WHERE Id = 2", 1, "longer than VARCHAR(10)"),
    ("UPDATE Orders SET Orders.Name = :a WHERE Id = 2", 1, "without its table"),
    ("UPDATE Orders SET Name = :a FROM Orders AS o WHERE o.Id = 1", 1, "under another name"),
    ("UPDATE o SET Name = :a FROM Orders AS o WHERE o.Id = 1", 1, "'o' is an alias"),
    ("UPDATE orders SET Name = :a FROM Orders AS orders WHERE orders.Id = 1", 1, "'orders' is an alias"),
    ("DELETE i FROM Items AS i WHERE i.OrderId = 1", 1, "'i' is an alias"),
    ("UPDATE inserted SET Name = :a WHERE Id = 1", 1, "no table 'inserted'"),
    ("CREATE TABLE x (Id INT NOT NULL)", 1, "changed by scripts"),
    # Types.
    ("SELECT Id FROM Orders WHERE Attempts = 'x'", 1, "INT beside VARCHAR(1)"),
    ("SELECT Id FROM Orders WHERE MadeAt > 5", 1, "DATETIME2 beside BIGINT"),
    ("SELECT Id FROM Orders WHERE Owner IN (NULL, 2)", 1, "UNIQUEIDENTIFIER beside BIGINT"),
    ("INSERT INTO Orders (Code, Hash) VALUES (:c, 'x')", 1, "VARBINARY(32) beside VARCHAR(1)"),
    ("UPDATE Orders SET Name = MadeAt + 1 WHERE Id = 1", 1, "'+' between"),
    ("SELECT CASE WHEN Id = 1 THEN Attempts ELSE 'x' END FROM Orders", 1, "the branches of CASE differ"),
    ("DECLARE @x INT = N'a'", 1, "INT beside NVARCHAR(1)"),
    ("SELECT TOP ('x') Id FROM Orders ORDER BY Id", 1, "for a number of rows"),
    ("SELECT -MadeAt FROM Orders", 1, "'-' before DATETIME2"),
    ("SELECT Name * 2 FROM Orders", 1, "'*' of NVARCHAR(100)"),
    ("SELECT v.a FROM (VALUES (1), (N'x')) AS v (a)", 1, "the values of a column differ"),
    ("SELECT Id AS n, Attempts AS n FROM Orders ORDER BY n", 1, "'n' is ambiguous"),
    ("SELECT Id FROM Orders UNION SELECT OrderId FROM Items ORDER BY Id + 1", 1, "UNION takes one of its columns"),
    ("SELECT j.a FROM OPENJSON(:x) WITH (a INT, a INT) AS j", 1, "two columns are called 'a'"),
    # Rules of the house.
    ("MERGE INTO Orders AS t USING Items AS s ON 1 = 1 WHEN MATCHED THEN DELETE", 1, "no MERGE"),
    ("WAITFOR DELAY '00:00:01'", 1, "no WAITFOR"),
    ("WITH c AS (SELECT Id, Name FROM Orders) UPDATE c SET Name = :n", 1, "is a WITH query"),
    ("WITH c AS (SELECT Id FROM Orders) DELETE FROM c", 1, "is a WITH query"),
    ("WITH c AS (SELECT Id FROM Orders) DELETE d FROM c AS d", 1, "is no table"),
    ("UPDATE x SET n = 1 FROM (SELECT Id AS n FROM Orders) AS x", 1, "is no table"),
    ("UPDATE Orders SET Name = :n OUTPUT inserted.Id FROM Orders WHERE Id = 1", 1, "'Id' beside OUTPUT"),
    ("UPDATE Orders SET Attempts = Attempts + 1 OUTPUT deleted.Id WHERE Orders.Id = 1", 1, "'Attempts' beside OUTPUT"),
    ("UPDATE Orders SET Name = :n OUTPUT Id WHERE Orders.Id = 1", 1, "inserted. or deleted."),
    ("INSERT INTO Orders (Code) OUTPUT deleted.Id VALUES (:c)", 1, "OUTPUT takes inserted."),
    ("UPDATE Items SET OrderId = o.Id OUTPUT Items.OrderId FROM Orders AS o WHERE o.Id = Items.OrderId", 1,
     "OUTPUT takes inserted."),
    ("UPDATE Items SET OrderId = o.Id OUTPUT inserted.OrderId FROM Items JOIN Orders AS o ON o.Id = Items.OrderId", 1,
     "is not JOINed"),
    ("DELETE FROM Orders OUTPUT inserted.Id WHERE Id = 1", 1, "OUTPUT takes deleted."),
    ("DELETE FROM Orders OUTPUT deleted.Nane WHERE Id = 1", 1, "no column 'Nane'"),
    ("INSERT INTO Journal (Line) OUTPUT inserted.Id VALUES (:l)", 1, "which has a trigger"),
    ("DECLARE @t TABLE (a INT NULL)\nINSERT INTO Journal (Line) OUTPUT inserted.Id, inserted.Id INTO @t VALUES (:l)", 2,
     "2 values for 1 columns"),
    ("SELECT Id FROM Orders WITH (READPAST)", 1, "READPAST only together"),
    ("SELECT Id FROM Orders WITH (UPDLOCK, READPAST)", 1, "READPAST only together"),
    ("SELECT Id FROM Orders WITH (UPDLOCK, READPAST, ROWLOCK, HOLDLOCK)", 1, "does not go with HOLDLOCK"),
    ("SELECT Id FROM Orders WITH (UPDLOCK, UPDLOCK)", 1, "a hint stands twice"),
    ("SELECT Id FROM Orders WITH (NOLOCK)", 1, "no NOLOCK"),
    ("SELECT * FROM Orders", 1, "no *"),
    ("SELECT o.* FROM Orders AS o", 1, "no *"),
    ("UPDATE Orders SET Name = :n OUTPUT inserted.* WHERE Orders.Id = 1", 1, "no *"),
    ("SELECT TOP (1) Id FROM Orders", 1, "TOP needs ORDER BY"),
    ("SELECT TOP (1) Id FROM Orders ORDER BY Id OFFSET 1 ROWS", 1, "TOP together with OFFSET"),
    ("SELECT Id FROM Orders\nWHERE Code = :code", 2, "CAST(:code AS VARCHAR(21))"),
    ("SELECT Id FROM Orders WHERE :code = Code", 1, "CAST(:code AS VARCHAR(21))"),
    ("SELECT Id FROM Orders WHERE Code IN (:a, 'x')", 1, "CAST(:a AS VARCHAR(21))"),
    ("SELECT Id FROM Orders WHERE Code LIKE :p", 1, "arrives as NVARCHAR"),
    ("SELECT Id FROM Orders WHERE Code = CAST(:code AS VARCHAR(20))", 1, "cuts a longer value"),
    ("SELECT Id FROM Orders WHERE Code = CAST(:code AS NVARCHAR(21))", 1, "keep the index on Code"),
    ("SELECT Id FROM Orders WHERE Code = N'x'", 1, "keep the index on Code"),
    ("SELECT Id FROM Orders WHERE Code IN (SELECT value FROM STRING_SPLIT(:l, ','))", 1, "keep the index on Code"),
    ("SELECT o.Id FROM Orders AS o JOIN Items AS i ON i.Name = o.Code", 1, "keep the index on Code"),
    ("UPDATE Orders SET Name = :n WHERE Id = :id\nIF @@ROWCOUNT = 0 INSERT INTO Orders (Code) VALUES (:c)", 1,
     "keeps others out between them"),
    ("SELECT name FROM sys.columns WHERE object_id = N'x'", 1, "BIGINT beside NVARCHAR(1)"),
    ("BEGIN TRANSACTION ROLLBACK x", 1, "expected a statement"),
    ("SELECT Id FROM Orders WHERE Name = NULL", 1, "never true"),
    ("SELECT Id FROM Orders WHERE Name = 'não'", 1, "only N'…' keeps"),
]


@pytest.mark.parametrize("text,line,message", BAD)
def test_bad_text_is_told_with_its_line(text, line, message):
    found = of_query(text, line=1)
    assert [at for at, words in found if message in words] == [line], found


GUARDED = "IF OBJECT_ID(N'Made', N'U') IS NULL\n"
BAD_SCRIPTS = [
    # Running again.
    ("CREATE TABLE Made (Id INT NOT NULL);\n", 1, "does not stand under an IF that finds 'Made' missing"),
    ("IF OBJECT_ID(N'Other', N'U') IS NULL\nCREATE TABLE Made (Id INT NOT NULL);\n", 2, "finds 'Made' missing"),
    ("IF OBJECT_ID(N'Made', N'U') IS NOT NULL\nCREATE TABLE Made (Id INT NOT NULL);\n", 2, "finds 'Made' missing"),
    ("IF OBJECT_ID(N'Made', N'V') IS NULL\nCREATE TABLE Made (Id INT NOT NULL);\n", 2, "of type 'V', not 'U'"),
    ("IF OBJECT_ID(N'Made', N'U') IS NULL OR 1 = 1\nCREATE TABLE Made (Id INT NOT NULL);\n", 2, "finds 'Made' missing"),
    ("IF EXISTS (SELECT 1 FROM sys.tables WHERE name = N'Made')\nCREATE TABLE Made (Id INT NOT NULL);\n", 2,
     "'Made' missing"),
    ("CREATE INDEX IX_a ON Orders (Name);\n", 1, "finds 'IX_a' of 'Orders' missing"),
    ("IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE name = N'IX_a' AND object_id = OBJECT_ID(N'Items'))\n"
     "    CREATE INDEX IX_a ON Orders (Name);\n", 2, "finds 'IX_a' of 'Orders' missing"),
    ("ALTER TABLE Orders ADD Color INT NULL;\n", 1, "finds 'Color' of 'Orders' missing"),
    ("IF COL_LENGTH(N'Orders', N'Name') IS NULL\n    ALTER TABLE Orders ADD Color INT NULL;\n", 2, "finds 'Color' of"),
    ("IF COL_LENGTH(N'Orders', N'A') IS NULL\n    ALTER TABLE Orders ADD A INT NULL, B INT NULL;\n", 2, "finds 'B' of"),
    ("ALTER TABLE Orders ADD CONSTRAINT CK_a CHECK (Attempts > 0);\n", 1, "finds 'CK_a' missing"),
    ("IF OBJECT_ID(N'CK_a', N'D') IS NULL\nALTER TABLE Orders ADD CONSTRAINT CK_a CHECK (Id > 0);\n", 2, "not 'C'"),
    ("CREATE TRIGGER TR_a ON Items AFTER INSERT AS SELECT 1;\n", 1, "finds 'TR_a' missing"),
    ("DROP TRIGGER IF EXISTS TR_b;\nGO\nCREATE TRIGGER TR_a ON Items AFTER INSERT AS SELECT 1;\n", 3, "finds 'TR_a'"),
    ("PRINT N'x';\nCREATE TRIGGER TR_a ON Items AFTER INSERT AS SELECT 1;\n", 2, "the first of its batch"),
    ("INSERT INTO Journal (Line) VALUES (N'x');\n", 1, "IF NOT EXISTS"),
    ("DROP TABLE Items;\n", 1, "DROP TABLE Items without IF EXISTS"),
    ("ALTER TABLE Orders DROP COLUMN Name;\n", 1, "DROP COLUMN Name without IF EXISTS"),
    ("IF COL_LENGTH(N'Orders', N'Color') IS NULL\n    ALTER TABLE Orders ADD Color INT NULL;\n"
     "UPDATE Orders SET Color = 1 WHERE Id = 1;\n", 3, "by the same batch (line 2): GO between"),
    ("IF COL_LENGTH(N'Orders', N'Color') IS NULL\n    EXEC(N'ALTER TABLE Orders ADD Color INT NULL');\n"
     "SELECT Color FROM Orders;\n", 3, "by the same batch"),
    ("IF COL_LENGTH(N'Orders', N'A') IS NULL\n    ALTER TABLE Orders ADD A INT NOT NULL;\n", 2, "without a default"),
    ("IF COL_LENGTH(N'Orders', N'Name') IS NULL\n    ALTER TABLE Orders ADD Name NVARCHAR(99) NULL;\n", 2,
     "otherwise than line"),
    ("IF COL_LENGTH(N'Orders', N'Colour') IS NULL PRINT N'x';\n", 1, "gives 'Orders' a column 'Colour'"),
    ("IF OBJECT_ID(N'Ordres') IS NULL PRINT N'x';\n", 1, "no script makes 'Ordres'"),
    # Definitions.
    (GUARDED + "CREATE TABLE Made (Id INT);\n", 2, "say NULL or NOT NULL"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL, id INT NOT NULL);\n", 2, "two columns are called 'id'"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL PRIMARY KEY);\n", 2, "PRIMARY KEY without a name"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL DEFAULT 0);\n", 2, "DEFAULT without a name"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL CONSTRAINT PK_Orders PRIMARY KEY);\n", 2, "Orders has a constraint"),
    (GUARDED + "CREATE TABLE Made (Id INT NULL CONSTRAINT PK_a PRIMARY KEY);\n", 2, "may be NULL"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL CONSTRAINT DF_a DEFAULT 'x');\n", 2, "INT beside VARCHAR(1)"),
    (GUARDED + "CREATE TABLE Made (Id SERIAL NOT NULL);\n", 2, "INT IDENTITY(1,1)"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL AUTOINCREMENT);\n", 2, "IDENTITY(1,1)"),
    (GUARDED + "CREATE TABLE Made (MadeAt DATETIME NOT NULL);\n", 2, "DATETIME2"),
    (GUARDED + "CREATE TABLE Made (User INT NOT NULL);\n", 2, "[User]"),
    (GUARDED + "CREATE TABLE Made (A NVARCHAR(MAX) NOT NULL CONSTRAINT PK_a PRIMARY KEY);\n", 2, "over NVARCHAR(MAX)"),
    (GUARDED + "CREATE TABLE Made (A NVARCHAR(500) NOT NULL CONSTRAINT PK_a PRIMARY KEY);\n", 2, "bytes: at most 900"),
    (GUARDED + "CREATE TABLE Made (Id INT NOT NULL CONSTRAINT CK_a CHECK (Idd > 0));\n", 2, "no column 'Idd'"),
    (GUARDED + "CREATE TABLE Made (A INT NOT NULL CONSTRAINT FK_a REFERENCES Orders (Id));\n", 2,
     "A is INT, Orders.Id BIGINT"),
    (GUARDED + "CREATE TABLE Made (A BIGINT NULL CONSTRAINT FK_a REFERENCES Ordres (Id));\n", 2, "no table 'Ordres'"),
    (GUARDED + "CREATE TABLE Made (A BIGINT NULL CONSTRAINT FK_a REFERENCES Orders (Idd));\n", 2, "no column 'Idd'"),
    (GUARDED + "CREATE TABLE Made (A BIGINT NOT NULL CONSTRAINT FK_a REFERENCES Orders (Id) ON DELETE CASCADE,\n"
     "    B BIGINT NOT NULL, C INT NOT NULL,\n"
     "    CONSTRAINT FK_b FOREIGN KEY (B, C) REFERENCES Items (OrderId, Position) ON DELETE CASCADE);\n", 4,
     "a deletion in Orders would reach Made by more than one cascade"),
    ("IF OBJECT_ID(N'FK_a', N'F') IS NULL\n    ALTER TABLE Items ADD CONSTRAINT FK_a FOREIGN KEY (OrderId)\n"
     "        REFERENCES Orders (Id) ON DELETE CASCADE;\n", 2, "reach Items by more than one cascade"),
    ("IF OBJECT_ID(N'Orders', N'U') IS NULL\nCREATE TABLE Orders (Id INT NOT NULL);\n", 2, "made a second time"),
    ("CREATE TABLE IF NOT EXISTS Made (Id INT NOT NULL);\n", 1, "IF OBJECT_ID"),
    ("CREATE OR ALTER TRIGGER TR_a ON Items AFTER INSERT AS SELECT 1;\n", 1, "newer than SQL Server 2016"),
    ("IF COL_LENGTH(N'Orders', N'A') IS NULL ALTER TABLE Orders ADD COLUMN A INT NULL;\n", 1, "ADD without COLUMN"),
    ("DROP INDEX IF EXISTS IX_a ON Orders;\nCREATE INDEX IX_a ON Orders (Nane);\n", 2, "no column 'Nane'"),
    ("DROP INDEX IF EXISTS IX_a ON Orders;\nCREATE INDEX IX_a ON Orders (Payload);\n", 2, "a key over NVARCHAR(MAX)"),
    ("DROP INDEX IF EXISTS IX_a ON Orders;\nCREATE INDEX IX_a ON Orders (Id) WHERE Name IS NULL;\n", 2,
     "SET ANSI_NULLS ON"),
    (SETTINGS + "DROP INDEX IF EXISTS IX_a ON Orders;\nCREATE INDEX IX_a ON Orders (Id)\nWHERE Id = 1 OR Id = 2;\n", 6,
     "the filter of an index"),
    (SETTINGS + "DROP INDEX IF EXISTS IX_a ON Orders;\nCREATE INDEX IX_a ON Orders (Id) WHERE LEN(Name) = 2;\n", 5,
     "the filter of an index"),
    ("IF OBJECT_ID(N'TR_a', N'TR') IS NULL\n    EXEC(N'CREATE TRIGGER TR_a ON Items AFTER INSERT AS\n"
     "    SELECT Nane FROM inserted');\n", 3, "no column 'Nane'"),
    ("ALTER TABLE Items ALTER COLUMN Name NVARCHAR(200) NULL;\n", 1, "neither NULL nor NOT NULL"),
    ("ALTER TABLE Orders ALTER COLUMN Code VARCHAR(200);\n", 1, "would become nullable"),
    ("ALTER TABLE Orders WITH CHECK ADD CONSTRAINT CK_a CHECK (Id > 0);\n", 1, "no WITH CHECK"),
    # Batches.
    ("PRINT N'a'; GO\n", 1, "GO stands alone"),
    ("PRINT N'\nGO\n';\n", 2, "GO inside a string or a comment"),
    ("/*\nGO\n*/\n", 2, "GO inside a string or a comment"),
    ("PRINT N'$(x)';\n", 1, "sqlcmd would replace"),
    ("PRINT :x;\n", 1, "a script has no parameters"),
    ("DECLARE @x INT = 1;\nGO\nSELECT @x;\n", 3, "no variable '@x'"),
    ("PRINT N'a'\nGO\nSELEC 1;\n", 3, "expected a statement"),
]


@pytest.mark.parametrize("text,line,message", BAD_SCRIPTS)
def test_bad_script_is_told_with_its_line(text, line, message):
    found = of_script(text, copy.deepcopy(CATALOGUE))
    assert [at for at, words in found if message in words] == [line], found


# --- the program -------------------------------------------------------------------------------------


def tree(tmp_path, queries, script=SCHEMA):
    (tmp_path / "scripts/sqlserver").mkdir(parents=True)
    (tmp_path / "scripts/sqlserver/000_x.sql").write_text(script, encoding="utf-8")
    (tmp_path / "src/room").mkdir(parents=True)
    (tmp_path / "src/room/x.sql").write_text(queries, encoding="utf-8")
    return tmp_path


def run(*args):
    done = subprocess.run([sys.executable, ROOT / "tools/check_tsql.py", *args], text=True, capture_output=True,
                          check=False)
    assert done.stderr == "" or done.returncode == 2
    return done.returncode, done.stdout.splitlines()


def test_nothing_is_printed_when_all_is_well(tmp_path):
    assert run(tree(tmp_path, "-- name: a\nSELECT Id FROM Orders;\n")) == (0, [])


def test_a_problem_has_its_file_and_line_past_comments_and_blank_lines(tmp_path):
    queries = "-- Words.\n\n-- name: a\n/* two\nlines */ SELECT Id,\n\n\n    -- here\n    Nane\nFROM Orders;\n"
    script = SCHEMA + "DROP TABLE Items;\n"
    line = SCHEMA.count("\n") + 1
    assert run(tree(tmp_path, queries, script)) == (1, [
        f"scripts/sqlserver/000_x.sql:{line}: DROP TABLE Items without IF EXISTS: it may run again",
        "src/room/x.sql:9: no column 'Nane' in Orders; is 'Name' meant?"])


def test_the_text_that_serves_sql_server_is_checked_and_no_other(tmp_path):
    queries = ("-- name: a\nSELECT Id FROM Orders LIMIT 1\n-- dialect: sqlserver\nSELECT Id FROM Orders;\n"
               "-- name: b\n-- dialect: sqlite\nSELECT 1 LIMIT 1;\n-- dialect: postgres\nSELECT 2 LIMIT 1;\n"
               "-- dialect: sqlserver\nSELECT Idd FROM Orders;\n"
               "-- name: c\nSELECT Id FROM Orders LIMIT 1;\n")
    assert run(tree(tmp_path, queries)) == (1, [
        "src/room/x.sql:11: no column 'Idd' in Orders; is 'Id' meant?",
        "src/room/x.sql:13: " + tsql.ELSEWHERE["LIMIT"]])


def test_a_variant_with_other_parameters_is_refused(tmp_path):
    queries = "-- name: a\nSELECT :a + Id FROM Orders\n-- dialect: sqlserver\nSELECT :b + Id FROM Orders;\n"
    status, lines = run(tree(tmp_path, queries))
    assert status == 1
    assert len(lines) == 1 and lines[0].startswith("src/room/x.sql:3: ") and "lacks :a; adds :b" in lines[0]


def test_a_query_without_a_text_for_sql_server_is_refused(tmp_path):
    status, lines = run(tree(tmp_path, "-- name: a\n-- dialect: sqlite, postgres\nSELECT 1;\n"))
    assert status == 1
    assert len(lines) == 1 and lines[0].startswith("src/room/x.sql:1: ") and "'a' has no text for sqlserver" in lines[0]


def test_no_scripts_at_all_is_a_problem(tmp_path):
    (tree(tmp_path, "-- name: a\nSELECT 1;\n") / "scripts/sqlserver/000_x.sql").unlink()
    assert run(tmp_path) == (1, ["scripts/sqlserver:1: no scripts"])


def test_the_list_has_tables_and_parameters(tmp_path):
    queries = ("-- name: a\nINSERT INTO Items (OrderId, Position) SELECT Id, :p FROM Orders WHERE Name = :n;\n"
               "-- name: b\nSELECT COUNT(*) FROM sys.tables;\n")
    assert run("--list", tree(tmp_path, queries)) == (0, [
        "src/room/x.sql: a: INSERT Items; SELECT Orders: :p, :n", "src/room/x.sql: b: -: -"])


def test_wrong_usage_exits_2():
    assert run("--frobnicate")[0] == 2


# --- what is shipped ---------------------------------------------------------------------------------

SCRIPTS = sorted((ROOT / "scripts/sqlserver").glob("*.sql"))
SHIPPED = check_tsql.Project(ROOT)
PROBLEMS = SHIPPED.check()
MUTANTS_OF_A_SCRIPT, MUTANTS_OF_A_QUERY = 30, 12  # all of them take minutes


def test_what_is_shipped_is_right():
    assert PROBLEMS == []


def mutants(source, how_many):
    """Texts with one token taken out, or two neighbours swapped; a sample that is the same in every run."""
    stream = tsql.tokens(source)[:-1]
    made_of = [source[:t.begin] + " " + source[t.end:] for t in stream]
    made_of += [f"{source[:a.begin]} {b.text} {source[a.end:b.begin]} {a.text} {source[b.end:]}"
                for a, b in zip(stream, stream[1:]) if a.text != b.text]
    return random.Random(1).sample(made_of, min(how_many, len(made_of)))


def test_mutants_of_the_shipped_scripts_are_refused():
    """Of 100 about 4 are good T-SQL too: a NOT of NOT NULL, a semicolon or the word NONCLUSTERED is missing."""
    found = []
    for path in SCRIPTS:
        before = made(*(p.read_text(encoding="utf-8") for p in SCRIPTS if p < path))
        before.asked, before.cascades = [], {}  # they hold functions, and pickling is ten times as fast as deepcopy
        before = pickle.dumps(before)
        source = path.read_text(encoding="utf-8")
        found += [bool(of_script(mutant, pickle.loads(before))) for mutant in mutants(source, MUTANTS_OF_A_SCRIPT)]
    assert sum(found) / len(found) >= 0.92


def test_mutants_of_the_shipped_queries_are_refused():
    """Of 100 about 1 is good T-SQL too: a DESC is missing."""
    found = [bool(of_query(mutant, SHIPPED.catalogue)) for query in SHIPPED.queries for mutant in mutants(query.source, MUTANTS_OF_A_QUERY)]
    assert sum(found) / len(found) >= 0.95


@pytest.mark.parametrize("query", [pytest.param(query, id=query.name) for query in SHIPPED.queries])
def test_a_misspelt_name_is_found_wherever_it_stands(query):
    names = {name for table in SHIPPED.catalogue.tables.values() for name in (table.name, *table.columns)}
    names |= {name for view, columns in check_tsql.SYSTEM.items() for name in (*view.split("."), *columns)}
    stream = tsql.tokens(query.source)
    misspelt = [t for before, t in zip([None, *stream], stream)
                if t.kind in ("word", "name") and t.value in names and not (before and before.key == "AS")]
    assert misspelt or not query.uses
    for token in misspelt:
        for wrong in (token.value + "x", token.value.swapcase()):
            mutant = query.source[:token.begin] + wrong + query.source[token.end:]
            assert of_query(mutant, SHIPPED.catalogue), mutant
