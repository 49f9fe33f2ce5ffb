-- A database as the sources' own scripts leave it: their columns and no others, and some rows. Constraints are made in
-- the various ways that are to be found: named and not, a unique key as a constraint and as an index, a foreign key
-- that is not there. What scripts/sqlserver adds must leave the rows alone and end in the schema of a fresh database.

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- --- the first: interface -----------------------------------------------------------------------------------------

CREATE TABLE TB_COUNTERPARTIES (
    Id BIGINT IDENTITY(1,1) NOT NULL,
    BusinessDocId VARCHAR(100) NOT NULL,
    BusinessAppId VARCHAR(20) NULL,
    BusinessEntity VARCHAR(20) NULL,
    OriginalBusinessDocId VARCHAR(100) NULL,
    CounterpartyId VARCHAR(50) NULL,
    EntityType VARCHAR(10) NULL,
    Name VARCHAR(200) NULL,
    LocalName VARCHAR(200) NULL,
    SearchName VARCHAR(200) NULL,
    ReferenceCode VARCHAR(50) NULL,
    IsDeleted BIT NOT NULL DEFAULT(0),
    Source VARCHAR(20) NULL,
    Status VARCHAR(30) NOT NULL DEFAULT('Received'),
    CreatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    UpdatedAt DATETIME2 NULL,
    RawPayload NVARCHAR(MAX) NULL,
    CONSTRAINT PK_TB_COUNTERPARTIES PRIMARY KEY CLUSTERED (Id ASC)
);
CREATE UNIQUE NONCLUSTERED INDEX UQ_TB_COUNTERPARTIES_BusinessDocId ON TB_COUNTERPARTIES (BusinessDocId ASC);
CREATE NONCLUSTERED INDEX IX_TB_COUNTERPARTIES_CounterpartyId ON TB_COUNTERPARTIES (CounterpartyId ASC)
    WHERE CounterpartyId IS NOT NULL;
CREATE NONCLUSTERED INDEX IX_TB_COUNTERPARTIES_EntityType ON TB_COUNTERPARTIES (EntityType ASC);

CREATE TABLE TB_COUNTERPARTY_ADDRESSES (
    Id BIGINT IDENTITY(1,1) NOT NULL,
    CounterpartyIdFk BIGINT NOT NULL,
    AddressTypeCode VARCHAR(10) NULL,
    AddressTypeName VARCHAR(50) NULL,
    Phone VARCHAR(30) NULL,
    Fax VARCHAR(30) NULL,
    AddrLine1 VARCHAR(200) NULL,
    AddrLine2 VARCHAR(200) NULL,
    CityCode VARCHAR(30) NULL,
    ZipCode VARCHAR(20) NULL,
    State VARCHAR(10) NULL,
    District VARCHAR(100) NULL,
    IsMainAddress BIT NOT NULL DEFAULT(0),
    IsDeleted BIT NOT NULL DEFAULT(0),
    CreatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    CONSTRAINT PK_TB_COUNTERPARTY_ADDRESSES PRIMARY KEY CLUSTERED (Id ASC),
    CONSTRAINT FK_TB_COUNTERPARTY_ADDRESSES_Counterparty FOREIGN KEY (CounterpartyIdFk)
        REFERENCES TB_COUNTERPARTIES (Id) ON DELETE CASCADE
);
CREATE NONCLUSTERED INDEX IX_TB_COUNTERPARTY_ADDRESSES_CounterpartyIdFk
    ON TB_COUNTERPARTY_ADDRESSES (CounterpartyIdFk ASC);

-- Its second index and its foreign key are missing.
CREATE TABLE TB_COUNTERPARTY_FISCAL_REFERENCES (
    Id BIGINT IDENTITY(1,1) NOT NULL,
    CounterpartyIdFk BIGINT NOT NULL,
    FiscalReferenceTypeCode VARCHAR(10) NULL,
    FiscalReferenceTypeName VARCHAR(50) NULL,
    FiscalNumber VARCHAR(30) NULL,
    CreatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    CONSTRAINT PK_TB_COUNTERPARTY_FISCAL_REFERENCES PRIMARY KEY CLUSTERED (Id ASC)
);
CREATE NONCLUSTERED INDEX IX_TB_COUNTERPARTY_FISCAL_REFERENCES_CounterpartyIdFk
    ON TB_COUNTERPARTY_FISCAL_REFERENCES (CounterpartyIdFk ASC);

CREATE TABLE TB_TICKET_INTERFACE (
    Id BIGINT IDENTITY(1,1) NOT NULL,
    BusinessEntity VARCHAR(100) NOT NULL,
    BusinessDocId VARCHAR(100) NOT NULL,
    CompanyCode VARCHAR(20) NOT NULL,
    BranchCode VARCHAR(20) NOT NULL,
    DestinationCode VARCHAR(20) NOT NULL,
    PhaseCode INT NOT NULL,
    ShipmentEvent VARCHAR(20) NOT NULL,
    FunctionalAckIsRequired BIT NOT NULL,
    TargetApplicationCode VARCHAR(20) NOT NULL,
    Status VARCHAR(20) NOT NULL DEFAULT('Awaiting'),
    AttemptCount INT NOT NULL DEFAULT(0),
    RawPayloadJson NVARCHAR(MAX) NOT NULL,
    LastError NVARCHAR(2000) NULL,
    CreatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    UpdatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    ReturnStatus VARCHAR(20) NOT NULL DEFAULT('Pending'),
    ReturnAttemptCount INT NOT NULL DEFAULT(0),
    ReturnLastError NVARCHAR(2000) NULL,
    ReturnSentAt DATETIME2 NULL,
    ReturnLastAttemptAt DATETIME2 NULL,
    GatewaySendStatus VARCHAR(20) NOT NULL DEFAULT('Pending'),
    GatewaySendAttemptCount INT NOT NULL DEFAULT(0),
    GatewaySendLastError NVARCHAR(2000) NULL,
    GatewaySendLastAttemptAt DATETIME2 NULL,
    GatewaySendSentAt DATETIME2 NULL,
    CallbackStatus VARCHAR(20) NOT NULL DEFAULT('Pending'),
    CallbackReceivedAt DATETIME2 NULL,
    CallbackPayloadJson NVARCHAR(MAX) NULL,
    CallbackMessage NVARCHAR(2000) NULL,
    CallbackCode VARCHAR(50) NULL,
    CONSTRAINT PK_TB_TICKET_INTERFACE PRIMARY KEY CLUSTERED (Id ASC),
    CONSTRAINT UQ_TB_TICKET_INTERFACE_BusinessEntity_BusinessDocId_PhaseCode
        UNIQUE NONCLUSTERED (BusinessEntity ASC, BusinessDocId ASC, PhaseCode ASC)
);
CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_Status_CreatedAt ON TB_TICKET_INTERFACE (Status ASC, CreatedAt ASC);
CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_GatewaySendStatus_GatewaySendLastAttemptAt
    ON TB_TICKET_INTERFACE (GatewaySendStatus ASC, GatewaySendLastAttemptAt ASC);

CREATE TABLE TB_FUNCTIONAL_ACK_OUTBOX (
    Id BIGINT IDENTITY(1,1) NOT NULL,
    BusinessDocId VARCHAR(100) NOT NULL,
    PayloadJson NVARCHAR(MAX) NOT NULL,
    TargetUrl VARCHAR(500) NOT NULL,
    Status VARCHAR(20) NOT NULL DEFAULT('Pending'),
    AttemptCount INT NOT NULL DEFAULT(0),
    CreatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    LastAttemptAt DATETIME2 NULL,
    SentAt DATETIME2 NULL,
    LastError NVARCHAR(2000) NULL,
    CONSTRAINT PK_TB_FUNCTIONAL_ACK_OUTBOX PRIMARY KEY CLUSTERED (Id ASC)
);
CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_Status_CreatedAt
    ON TB_FUNCTIONAL_ACK_OUTBOX (Status ASC, CreatedAt ASC);
CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_BusinessDocId ON TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId ASC);

CREATE TABLE TB_TICKET_RETURN_OUTBOX (
    Id BIGINT IDENTITY(1,1) NOT NULL,
    BusinessEntity VARCHAR(100) NOT NULL,
    BusinessDocId VARCHAR(100) NOT NULL,
    PhaseCode INT NOT NULL,
    PayloadJson NVARCHAR(MAX) NOT NULL,
    TargetUrl VARCHAR(500) NOT NULL,
    Status VARCHAR(20) NOT NULL DEFAULT('Pending'),
    AttemptCount INT NOT NULL DEFAULT(0),
    CreatedAt DATETIME2 NOT NULL DEFAULT(SYSUTCDATETIME()),
    LastAttemptAt DATETIME2 NULL,
    SentAt DATETIME2 NULL,
    LastError NVARCHAR(2000) NULL,
    CONSTRAINT PK_TB_TICKET_RETURN_OUTBOX PRIMARY KEY CLUSTERED (Id ASC)
);
CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_Status_CreatedAt
    ON TB_TICKET_RETURN_OUTBOX (Status ASC, CreatedAt ASC);
CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_TicketKey
    ON TB_TICKET_RETURN_OUTBOX (BusinessEntity ASC, BusinessDocId ASC, PhaseCode ASC);
GO

SET IDENTITY_INSERT TB_COUNTERPARTIES ON;
INSERT INTO TB_COUNTERPARTIES (Id, BusinessDocId, BusinessAppId, BusinessEntity, CounterpartyId, EntityType, Name,
                               LocalName, Status, CreatedAt, UpdatedAt, RawPayload)
VALUES (7, 'CP_0007', 'ASB', 'PRC', '0050-1', 'CLI', 'Cervejaria São João', 'Cervejaria São João Ltda', 'Processed',
        '2024-02-29T23:59:59.123', '2025-01-02T03:04:05.006', N'{"name":"Cervejaria São João 🍺"}'),
       (12, 'CP_0012', NULL, NULL, NULL, '5', '', NULL, 'Received', '2025-01-01T00:00:00', NULL, NULL);
SET IDENTITY_INSERT TB_COUNTERPARTIES OFF;

SET IDENTITY_INSERT TB_COUNTERPARTY_ADDRESSES ON;
INSERT INTO TB_COUNTERPARTY_ADDRESSES (Id, CounterpartyIdFk, AddressTypeCode, AddressTypeName, AddrLine1, CityCode,
                                       ZipCode, State, District, IsMainAddress, CreatedAt)
VALUES (3, 7, '1', 'PRINCIPAL', 'Rua das Acácias, 10', '4315701', '96825-000', 'RS', 'Centro', 1,
        '2024-02-29T23:59:59.123'),
       (4, 7, '2', 'ENTREGA', 'Av. Independência, 2200', '4316808', NULL, 'RS', NULL, 0, '2024-02-29T23:59:59.123');
SET IDENTITY_INSERT TB_COUNTERPARTY_ADDRESSES OFF;

SET IDENTITY_INSERT TB_COUNTERPARTY_FISCAL_REFERENCES ON;
INSERT INTO TB_COUNTERPARTY_FISCAL_REFERENCES (Id, CounterpartyIdFk, FiscalReferenceTypeCode, FiscalReferenceTypeName,
                                               FiscalNumber, CreatedAt)
VALUES (5, 7, 'BR1', 'CNPJ/CPF', '11222333000181', '2024-02-29T23:59:59.123'),
       (6, 12, 'BR3', 'IE', NULL, '2025-01-01T00:00:00');
SET IDENTITY_INSERT TB_COUNTERPARTY_FISCAL_REFERENCES OFF;

SET IDENTITY_INSERT TB_TICKET_INTERFACE ON;
INSERT INTO TB_TICKET_INTERFACE (Id, BusinessEntity, BusinessDocId, CompanyCode, BranchCode, DestinationCode, PhaseCode,
                                 ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, Status, AttemptCount,
                                 RawPayloadJson, LastError, CreatedAt, UpdatedAt, ReturnStatus, ReturnAttemptCount,
                                 ReturnSentAt, CallbackStatus, CallbackMessage, CallbackCode)
VALUES (41, 'TCK', 'T_0041', '01', '02', 'D1', 15, 'RCD', 1, 'ASB', 'Processed', 1, N'{"obs":"carga frágil 📦"}', NULL,
        '2025-03-01T10:00:00.5', '2025-03-01T10:00:02.25', 'Sent', 2, '2025-03-01T10:00:03', 'Success',
        N'Aceito: não há pendências ✅', '000'),
       (42, 'TCK', 'T_0041', '01', '02', 'D1', 6, 'DLV', 0, 'ASB', 'Error', 5, N'{}', N'Peso líquido inválido ⚖️',
        '2025-03-01T11:00:00', '2025-03-01T11:30:00', 'Pending', 0, NULL, 'Pending', NULL, NULL);
SET IDENTITY_INSERT TB_TICKET_INTERFACE OFF;

SET IDENTITY_INSERT TB_FUNCTIONAL_ACK_OUTBOX ON;
INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (Id, BusinessDocId, PayloadJson, TargetUrl, Status, AttemptCount, CreatedAt,
                                      LastAttemptAt, SentAt, LastError)
VALUES (9, 'T_0041', N'{"functionalAck":{"items":[{"message":"ação concluída 👍"}]}}', 'https://gateway.example/ack',
        'Sent', 1, '2025-03-01T10:00:02', '2025-03-01T10:00:02.5', '2025-03-01T10:00:02.75', NULL),
       (10, 'CP_0012', N'{}', 'https://gateway.example/ack', 'Error', 3, '2025-03-02T00:00:00', '2025-03-02T00:01:00',
        NULL, N'503 Serviço indisponível');
SET IDENTITY_INSERT TB_FUNCTIONAL_ACK_OUTBOX OFF;

SET IDENTITY_INSERT TB_TICKET_RETURN_OUTBOX ON;
INSERT INTO TB_TICKET_RETURN_OUTBOX (Id, BusinessEntity, BusinessDocId, PhaseCode, PayloadJson, TargetUrl, Status,
                                     AttemptCount, CreatedAt, LastAttemptAt, SentAt, LastError)
VALUES (15, 'TCK', 'T_0041', 15, N'{"resultado":"concluído 🚚"}', 'https://gateway.example/return', 'Sent', 2,
        '2025-03-01T10:00:02', '2025-03-01T10:00:03', '2025-03-01T10:00:03', NULL);
SET IDENTITY_INSERT TB_TICKET_RETURN_OUTBOX OFF;
GO

-- --- the second: imports. No defaults, few indexes ----------------------------------------------------------------

CREATE TABLE Clients (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_Clients PRIMARY KEY,
    Name NVARCHAR(120) NOT NULL,
    ClientIdentifier VARCHAR(64) NOT NULL CONSTRAINT UQ_Clients_ClientIdentifier UNIQUE,
    SecretHash VARBINARY(MAX) NOT NULL,
    SecretSalt VARBINARY(MAX) NOT NULL,
    Status TINYINT NOT NULL,
    CreatedAt DATETIME2 NOT NULL,
    LastSeenAt DATETIME2 NULL
);

CREATE TABLE ClientPolicies (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_ClientPolicies PRIMARY KEY,
    ClientId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_ClientPolicies_Clients REFERENCES Clients (Id) ON DELETE CASCADE,
    MaxFileSizeMb INT NULL,
    MaxBatchPerDay INT NULL,
    AllowedStartHour TINYINT NULL,
    AllowedEndHour TINYINT NULL,
    RequireSchedulingForLarge BIT NOT NULL,
    LargeThresholdMb INT NULL,
    CreatedAt DATETIME2 NOT NULL
);

-- Neither foreign key nor index.
CREATE TABLE WebhookSubscriptions (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_WebhookSubscriptions PRIMARY KEY,
    ClientId UNIQUEIDENTIFIER NOT NULL,
    Url NVARCHAR(512) NOT NULL,
    Secret NVARCHAR(128) NULL,
    IsActive BIT NOT NULL,
    CreatedAt DATETIME2 NOT NULL
);

CREATE TABLE ImportBatch (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_ImportBatch PRIMARY KEY,
    ClientId UNIQUEIDENTIFIER NOT NULL CONSTRAINT FK_ImportBatch_Clients REFERENCES Clients (Id),
    Status TINYINT NOT NULL,
    FileName NVARCHAR(260) NOT NULL,
    FileType TINYINT NOT NULL,
    FileSizeBytes BIGINT NOT NULL,
    Checksum CHAR(64) NULL,
    UploadPath NVARCHAR(400) NULL,
    PolicyDecision NVARCHAR(100) NULL,
    CreatedAt DATETIME2 NOT NULL DEFAULT SYSUTCDATETIME(),
    StartedAt DATETIME2 NULL,
    CompletedAt DATETIME2 NULL,
    TotalRecords INT NULL,
    ProcessedRecords INT NOT NULL,
    ErrorSummary NVARCHAR(MAX) NULL
);
CREATE INDEX IX_ImportBatch_Status_CreatedAt ON ImportBatch (Status, CreatedAt);

CREATE TABLE ImportItem (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_ImportItem PRIMARY KEY,
    BatchId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_ImportItem_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    Sequence INT NOT NULL,
    PayloadJson NVARCHAR(MAX) NULL,
    Status TINYINT NOT NULL,
    ErrorMessage NVARCHAR(1000) NULL,
    CreatedAt DATETIME2 NOT NULL
);

CREATE TABLE BatchLocks (
    Id INT NOT NULL CONSTRAINT PK_BatchLocks PRIMARY KEY,
    IsLocked BIT NOT NULL,
    LockOwnerBatchId UNIQUEIDENTIFIER NULL,
    LockedAt DATETIME2 NULL
);
GO

INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt, Status, CreatedAt, LastSeenAt)
VALUES ('6f9619ff-8b86-4d01-b42d-00c04fc964ff', N'Imobiliária Coração 💙', 'store-omniflow',
        0x00010203FDFEFF, 0xA0A1A2A300, 0, '2024-11-20T12:00:00.1234567', '2025-11-20T12:00:00'),
       ('00000000-0000-4000-8000-000000000001', N'Piloto', 'piloto', 0xFF, 0x00, 1, '2024-11-21T00:00:00', NULL);
INSERT INTO ClientPolicies (Id, ClientId, MaxFileSizeMb, MaxBatchPerDay, AllowedStartHour, AllowedEndHour,
                            RequireSchedulingForLarge, LargeThresholdMb, CreatedAt)
VALUES ('11111111-2222-4333-8444-555555555555', '6f9619ff-8b86-4d01-b42d-00c04fc964ff', 50, NULL, 22, 6, 1, 10,
        '2024-11-20T12:00:01');
INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret, IsActive, CreatedAt)
VALUES ('aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee', '6f9619ff-8b86-4d01-b42d-00c04fc964ff',
        N'https://omniflow.example/notificações', N'segredo-ção-🔑', 1, '2024-11-20T12:00:02');
INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, FileSizeBytes, Checksum, UploadPath, PolicyDecision,
                         CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, ErrorSummary)
VALUES ('0e6a1c5e-3b0f-4f6e-9a51-7d2f4b8c9d10', '6f9619ff-8b86-4d01-b42d-00c04fc964ff', 4, N'leads – março 🏠.xlsx', 1,
        5000000000, '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
        N'/var/dataflow/imports/0e6a1c5e/original/leads.xlsx', N'Immediate', '2025-11-20T12:00:00',
        '2025-11-20T12:01:00', '2025-11-20T12:05:30', 2, 2, N'{"telefone inválido ☎️":1}'),
       ('0e6a1c5e-3b0f-4f6e-9a51-7d2f4b8c9d11', '6f9619ff-8b86-4d01-b42d-00c04fc964ff', 0, N'vazio.json', 0, 0, NULL,
        NULL, NULL, '2025-11-21T12:00:00', NULL, NULL, NULL, 0, NULL);
SET IDENTITY_INSERT ImportItem ON;
INSERT INTO ImportItem (Id, BatchId, Sequence, PayloadJson, Status, ErrorMessage, CreatedAt)
VALUES (1001, '0e6a1c5e-3b0f-4f6e-9a51-7d2f4b8c9d10', 1, N'{"Nome":"José","Nota":"😀😀"}', 0, NULL,
        '2025-11-20T12:02:00'),
       (1002, '0e6a1c5e-3b0f-4f6e-9a51-7d2f4b8c9d10', 2, N'{"Nome":"Conceição"}', 1, N'Telefone inválido ☎️',
        '2025-11-20T12:02:00');
SET IDENTITY_INSERT ImportItem OFF;
INSERT INTO BatchLocks (Id, IsLocked, LockOwnerBatchId, LockedAt)
VALUES (1, 1, '0e6a1c5e-3b0f-4f6e-9a51-7d2f4b8c9d11', '2025-11-21T12:00:01');
GO

-- --- the third: the outbox of an application ----------------------------------------------------------------------

CREATE TABLE outbox_events (
    id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_outbox_events PRIMARY KEY,
    event_type NVARCHAR(200) NOT NULL,
    payload NVARCHAR(MAX) NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'PENDING',
    attempts INT NOT NULL DEFAULT 0,
    created_at DATETIME2 NOT NULL
);
GO

INSERT INTO outbox_events (id, event_type, payload, status, attempts, created_at)
VALUES ('5a0f3f0e-6d4b-4b7e-8f0a-000000000001', N'TripCompleted', N'{"destino":"Praça da Sé 🚕"}', 'PENDING', 0,
        '2026-01-10T08:00:00'),
       ('5a0f3f0e-6d4b-4b7e-8f0a-000000000002', N'PaymentFailed', N'{}', 'FAILED', 5, '2026-01-10T08:00:01');
GO
