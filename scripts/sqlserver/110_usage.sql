-- What each process sees of the clients that are limited: how processes that share a database share a limit.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- One process's rows are written anew every second, those that it stopped writing are forgotten. Requests: admitted in the
-- last minute; Demand: asked for, as a rate a minute; Uploads: in progress.
IF OBJECT_ID(N'ClientUsage', N'U') IS NULL
CREATE TABLE ClientUsage (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_ClientUsage PRIMARY KEY CLUSTERED,
    ClientId UNIQUEIDENTIFIER NOT NULL,
    Replica UNIQUEIDENTIFIER NOT NULL,
    Requests INT NOT NULL,
    Demand INT NOT NULL,
    Uploads INT NOT NULL,
    UpdatedAt DATETIME2 NOT NULL
);
GO
