-- Counterparties, shipment tickets and the outboxes of functional acks and ticket returns.
--
-- SQLite does not enforce the lengths of declared types, so each is a CHECK as well. INTEGER PRIMARY KEY
-- AUTOINCREMENT is its identity column: 64 bits, and a number is never given twice.

CREATE TABLE IF NOT EXISTS TB_COUNTERPARTIES (
    Id INTEGER NOT NULL CONSTRAINT PK_TB_COUNTERPARTIES PRIMARY KEY AUTOINCREMENT,
    BusinessDocId VARCHAR(100) NOT NULL CHECK (length(BusinessDocId) <= 100),
    BusinessAppId VARCHAR(20) NULL CHECK (length(BusinessAppId) <= 20),
    BusinessEntity VARCHAR(20) NULL CHECK (length(BusinessEntity) <= 20),
    OriginalBusinessDocId VARCHAR(100) NULL CHECK (length(OriginalBusinessDocId) <= 100),
    CounterpartyId VARCHAR(50) NULL CHECK (length(CounterpartyId) <= 50),
    EntityType VARCHAR(10) NULL CHECK (length(EntityType) <= 10),
    Name VARCHAR(200) NULL CHECK (length(Name) <= 200),
    LocalName VARCHAR(200) NULL CHECK (length(LocalName) <= 200),
    SearchName VARCHAR(200) NULL CHECK (length(SearchName) <= 200),
    ReferenceCode VARCHAR(50) NULL CHECK (length(ReferenceCode) <= 50),
    IsDeleted BIT NOT NULL DEFAULT 0 CHECK (IsDeleted IN (0, 1)),
    Source VARCHAR(20) NULL CHECK (length(Source) <= 20),
    Status VARCHAR(30) NOT NULL DEFAULT 'Received' CHECK (length(Status) <= 30),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UpdatedAt TEXT NULL,
    RawPayload TEXT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_TB_COUNTERPARTIES_BusinessDocId
    ON TB_COUNTERPARTIES (BusinessDocId);
CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTIES_CounterpartyId
    ON TB_COUNTERPARTIES (CounterpartyId) WHERE CounterpartyId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTIES_EntityType
    ON TB_COUNTERPARTIES (EntityType);

CREATE TABLE IF NOT EXISTS TB_COUNTERPARTY_ADDRESSES (
    Id INTEGER NOT NULL CONSTRAINT PK_TB_COUNTERPARTY_ADDRESSES PRIMARY KEY AUTOINCREMENT,
    CounterpartyIdFk BIGINT NOT NULL
        CONSTRAINT FK_TB_COUNTERPARTY_ADDRESSES_Counterparty
        REFERENCES TB_COUNTERPARTIES (Id) ON DELETE CASCADE,
    AddressTypeCode VARCHAR(10) NULL CHECK (length(AddressTypeCode) <= 10),
    AddressTypeName VARCHAR(50) NULL CHECK (length(AddressTypeName) <= 50),
    Phone VARCHAR(30) NULL CHECK (length(Phone) <= 30),
    Fax VARCHAR(30) NULL CHECK (length(Fax) <= 30),
    AddrLine1 VARCHAR(200) NULL CHECK (length(AddrLine1) <= 200),
    AddrLine2 VARCHAR(200) NULL CHECK (length(AddrLine2) <= 200),
    CityCode VARCHAR(30) NULL CHECK (length(CityCode) <= 30),
    ZipCode VARCHAR(20) NULL CHECK (length(ZipCode) <= 20),
    State VARCHAR(10) NULL CHECK (length(State) <= 10),
    District VARCHAR(100) NULL CHECK (length(District) <= 100),
    IsMainAddress BIT NOT NULL DEFAULT 0 CHECK (IsMainAddress IN (0, 1)),
    IsDeleted BIT NOT NULL DEFAULT 0 CHECK (IsDeleted IN (0, 1)),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTY_ADDRESSES_CounterpartyIdFk
    ON TB_COUNTERPARTY_ADDRESSES (CounterpartyIdFk);

CREATE TABLE IF NOT EXISTS TB_COUNTERPARTY_FISCAL_REFERENCES (
    Id INTEGER NOT NULL CONSTRAINT PK_TB_COUNTERPARTY_FISCAL_REFERENCES PRIMARY KEY AUTOINCREMENT,
    CounterpartyIdFk BIGINT NOT NULL
        CONSTRAINT FK_TB_COUNTERPARTY_FISCAL_REFERENCES_Counterparty
        REFERENCES TB_COUNTERPARTIES (Id) ON DELETE CASCADE,
    FiscalReferenceTypeCode VARCHAR(10) NULL CHECK (length(FiscalReferenceTypeCode) <= 10),
    FiscalReferenceTypeName VARCHAR(50) NULL CHECK (length(FiscalReferenceTypeName) <= 50),
    FiscalNumber VARCHAR(30) NULL CHECK (length(FiscalNumber) <= 30),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTY_FISCAL_REFERENCES_CounterpartyIdFk
    ON TB_COUNTERPARTY_FISCAL_REFERENCES (CounterpartyIdFk);
CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTY_FISCAL_REFERENCES_FiscalNumber
    ON TB_COUNTERPARTY_FISCAL_REFERENCES (FiscalNumber);

-- Four state machines in one row: Status (Awaiting, Processing, Processed, Error), ReturnStatus and
-- GatewaySendStatus (Pending, Sending, Sent, Error), CallbackStatus (Pending, Received, Success, Error).
CREATE TABLE IF NOT EXISTS TB_TICKET_INTERFACE (
    Id INTEGER NOT NULL CONSTRAINT PK_TB_TICKET_INTERFACE PRIMARY KEY AUTOINCREMENT,
    BusinessEntity VARCHAR(100) NOT NULL CHECK (length(BusinessEntity) <= 100),
    BusinessDocId VARCHAR(100) NOT NULL CHECK (length(BusinessDocId) <= 100),
    CompanyCode VARCHAR(20) NOT NULL CHECK (length(CompanyCode) <= 20),
    BranchCode VARCHAR(20) NOT NULL CHECK (length(BranchCode) <= 20),
    DestinationCode VARCHAR(20) NOT NULL CHECK (length(DestinationCode) <= 20),
    PhaseCode INT NOT NULL,
    ShipmentEvent VARCHAR(20) NOT NULL CHECK (length(ShipmentEvent) <= 20),
    FunctionalAckIsRequired BIT NOT NULL CHECK (FunctionalAckIsRequired IN (0, 1)),
    TargetApplicationCode VARCHAR(20) NOT NULL CHECK (length(TargetApplicationCode) <= 20),
    Status VARCHAR(20) NOT NULL DEFAULT 'Awaiting' CHECK (length(Status) <= 20),
    AttemptCount INT NOT NULL DEFAULT 0,
    RawPayloadJson TEXT NOT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ReturnStatus VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(ReturnStatus) <= 20),
    ReturnAttemptCount INT NOT NULL DEFAULT 0,
    ReturnLastError NVARCHAR(2000) NULL CHECK (length(ReturnLastError) <= 2000),
    ReturnSentAt TEXT NULL,
    ReturnLastAttemptAt TEXT NULL,
    GatewaySendStatus VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(GatewaySendStatus) <= 20),
    GatewaySendAttemptCount INT NOT NULL DEFAULT 0,
    GatewaySendLastError NVARCHAR(2000) NULL CHECK (length(GatewaySendLastError) <= 2000),
    GatewaySendLastAttemptAt TEXT NULL,
    GatewaySendSentAt TEXT NULL,
    CallbackStatus VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(CallbackStatus) <= 20),
    CallbackReceivedAt TEXT NULL,
    CallbackPayloadJson TEXT NULL,
    CallbackMessage NVARCHAR(2000) NULL CHECK (length(CallbackMessage) <= 2000),
    CallbackCode VARCHAR(50) NULL CHECK (length(CallbackCode) <= 50)
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_TB_TICKET_INTERFACE_BusinessEntity_BusinessDocId_PhaseCode
    ON TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, PhaseCode);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_Status_CreatedAt
    ON TB_TICKET_INTERFACE (Status, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_ReturnStatus_ReturnLastAttemptAt
    ON TB_TICKET_INTERFACE (ReturnStatus, ReturnLastAttemptAt);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_GatewaySendStatus_GatewaySendLastAttemptAt
    ON TB_TICKET_INTERFACE (GatewaySendStatus, GatewaySendLastAttemptAt);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_CallbackStatus_CallbackReceivedAt
    ON TB_TICKET_INTERFACE (CallbackStatus, CallbackReceivedAt);

-- Status of both outboxes: Pending, Sending, Sent, Error.
CREATE TABLE IF NOT EXISTS TB_FUNCTIONAL_ACK_OUTBOX (
    Id INTEGER NOT NULL CONSTRAINT PK_TB_FUNCTIONAL_ACK_OUTBOX PRIMARY KEY AUTOINCREMENT,
    BusinessDocId VARCHAR(100) NOT NULL CHECK (length(BusinessDocId) <= 100),
    PayloadJson TEXT NOT NULL,
    TargetUrl VARCHAR(500) NOT NULL CHECK (length(TargetUrl) <= 500),
    Status VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(Status) <= 20),
    AttemptCount INT NOT NULL DEFAULT 0,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastAttemptAt TEXT NULL,
    SentAt TEXT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000)
);
CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_Status_CreatedAt
    ON TB_FUNCTIONAL_ACK_OUTBOX (Status, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_BusinessDocId
    ON TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId);

CREATE TABLE IF NOT EXISTS TB_TICKET_RETURN_OUTBOX (
    Id INTEGER NOT NULL CONSTRAINT PK_TB_TICKET_RETURN_OUTBOX PRIMARY KEY AUTOINCREMENT,
    BusinessEntity VARCHAR(100) NOT NULL CHECK (length(BusinessEntity) <= 100),
    BusinessDocId VARCHAR(100) NOT NULL CHECK (length(BusinessDocId) <= 100),
    PhaseCode INT NOT NULL,
    PayloadJson TEXT NOT NULL,
    TargetUrl VARCHAR(500) NOT NULL CHECK (length(TargetUrl) <= 500),
    Status VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(Status) <= 20),
    AttemptCount INT NOT NULL DEFAULT 0,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastAttemptAt TEXT NULL,
    SentAt TEXT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000)
);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_Status_CreatedAt
    ON TB_TICKET_RETURN_OUTBOX (Status, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_TicketKey
    ON TB_TICKET_RETURN_OUTBOX (BusinessEntity, BusinessDocId, PhaseCode);
