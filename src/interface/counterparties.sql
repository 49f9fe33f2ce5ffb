-- Counterparties with their addresses and fiscal references.
--
-- The CASTs are for SQL Server, where parameters are NVARCHAR and the columns are not: without them it would not use
-- the indexes. They are one character wider than the column, since a CAST cuts and would then match a row that was not
-- meant.

-- A row is new while UpdatedAt is NULL. The caller checks that, because SQLite 3.40 evaluates `x IS NULL` in RETURNING
-- to false if the table's first column is NOT NULL. SQL Server answers by a second SELECT, because in Babelfish
-- @@ROWCOUNT is 0 after an OUTPUT. No row: it is another client's (unless `all`). ClientId stays: the owner is the
-- client that made it.
-- name: counterparty_upsert
-- dialect: sqlite, postgres
INSERT INTO TB_COUNTERPARTIES (BusinessDocId, BusinessAppId, BusinessEntity, OriginalBusinessDocId, CounterpartyId,
                               EntityType, Name, LocalName, SearchName, ReferenceCode, IsDeleted, Source, Status,
                               CreatedAt, RawPayload, ClientId, PayloadAt)
VALUES (:business_doc_id, :business_app_id, :business_entity, :original_business_doc_id, :counterparty_id,
        :entity_type, :name, :local_name, :search_name, :reference_code, :is_deleted, :source, 'Received',
        :now, :raw_payload, :client, :now)
ON CONFLICT (BusinessDocId) DO UPDATE
SET BusinessAppId = excluded.BusinessAppId, BusinessEntity = excluded.BusinessEntity,
    OriginalBusinessDocId = excluded.OriginalBusinessDocId, CounterpartyId = excluded.CounterpartyId,
    EntityType = excluded.EntityType, Name = excluded.Name, LocalName = excluded.LocalName,
    SearchName = excluded.SearchName, ReferenceCode = excluded.ReferenceCode, IsDeleted = excluded.IsDeleted,
    Source = excluded.Source, Status = excluded.Status, UpdatedAt = excluded.CreatedAt,
    RawPayload = excluded.RawPayload, StatusMessage = NULL, ErasedAt = NULL, PayloadAt = excluded.PayloadAt,
    Version = TB_COUNTERPARTIES.Version + 1
WHERE TB_COUNTERPARTIES.ClientId = excluded.ClientId OR CAST(:all AS INT) = 1
RETURNING Id, UpdatedAt, ClientId;
-- dialect: sqlserver
UPDATE TB_COUNTERPARTIES WITH (UPDLOCK, HOLDLOCK)
SET BusinessAppId = :business_app_id, BusinessEntity = :business_entity,
    OriginalBusinessDocId = :original_business_doc_id, CounterpartyId = :counterparty_id,
    EntityType = :entity_type, Name = :name, LocalName = :local_name,
    SearchName = :search_name, ReferenceCode = :reference_code, IsDeleted = :is_deleted,
    Source = :source, Status = 'Received', UpdatedAt = :now,
    RawPayload = :raw_payload, StatusMessage = NULL, ErasedAt = NULL, PayloadAt = :now, Version = Version + 1
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101)) AND (ClientId = :client OR CAST(:all AS INT) = 1);
IF @@ROWCOUNT = 0
    INSERT INTO TB_COUNTERPARTIES (BusinessDocId, BusinessAppId, BusinessEntity, OriginalBusinessDocId, CounterpartyId,
                                   EntityType, Name, LocalName, SearchName, ReferenceCode, IsDeleted, Source, Status,
                                   CreatedAt, RawPayload, ClientId, PayloadAt)
    SELECT :business_doc_id, :business_app_id, :business_entity, :original_business_doc_id, :counterparty_id,
           :entity_type, :name, :local_name, :search_name, :reference_code, :is_deleted, :source, 'Received',
           :now, :raw_payload, :client, :now
    WHERE NOT EXISTS (SELECT 1 FROM TB_COUNTERPARTIES AS o
                      WHERE o.BusinessDocId = CAST(:business_doc_id AS VARCHAR(101)) AND CAST(:all AS INT) = 0
                        AND (o.ClientId IS NULL OR o.ClientId <> :client));
SELECT Id, UpdatedAt, ClientId FROM TB_COUNTERPARTIES
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101)) AND (ClientId = :client OR CAST(:all AS INT) = 1);

-- name: counterparty_addresses_delete
DELETE FROM TB_COUNTERPARTY_ADDRESSES WHERE CounterpartyIdFk = :id;

-- name: counterparty_address_insert
INSERT INTO TB_COUNTERPARTY_ADDRESSES (CounterpartyIdFk, AddressTypeCode, AddressTypeName, Phone, Fax, AddrLine1,
                                       AddrLine2, CityCode, ZipCode, State, District, IsMainAddress, IsDeleted,
                                       CreatedAt)
VALUES (:id, :type_code, :type_name, :phone, :fax, :addr_line1, :addr_line2, :city_code, :zip_code, :state, :district,
        :is_main_address, :is_deleted, :now);

-- name: counterparty_fiscal_delete
DELETE FROM TB_COUNTERPARTY_FISCAL_REFERENCES WHERE CounterpartyIdFk = :id;

-- name: counterparty_fiscal_insert
INSERT INTO TB_COUNTERPARTY_FISCAL_REFERENCES (CounterpartyIdFk, FiscalReferenceTypeCode, FiscalReferenceTypeName,
                                               FiscalNumber, CreatedAt)
VALUES (:id, :type_code, :type_name, :fiscal_number, :now);

-- name: counterparty_addresses
SELECT AddressTypeCode, AddressTypeName, Phone, Fax, AddrLine1, AddrLine2, CityCode, ZipCode, State, District,
       IsMainAddress, IsDeleted
FROM TB_COUNTERPARTY_ADDRESSES
WHERE CounterpartyIdFk = :id
ORDER BY Id;

-- name: counterparty_fiscal
SELECT FiscalReferenceTypeCode, FiscalReferenceTypeName, FiscalNumber
FROM TB_COUNTERPARTY_FISCAL_REFERENCES
WHERE CounterpartyIdFk = :id
ORDER BY Id;

-- The row is locked until the commit: a payload that comes meanwhile waits.
-- name: counterparty_lock
-- dialect: sqlite
SELECT Id, Version, UpdatedAt
FROM TB_COUNTERPARTIES
WHERE BusinessDocId = :business_doc_id AND (:business_entity IS NULL OR BusinessEntity = :business_entity);
-- dialect: postgres
SELECT Id, Version, UpdatedAt
FROM TB_COUNTERPARTIES
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101))
  AND (CAST(:business_entity AS VARCHAR(21)) IS NULL OR BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
FOR UPDATE;
-- dialect: sqlserver
SELECT Id, Version, UpdatedAt
FROM TB_COUNTERPARTIES WITH (UPDLOCK, ROWLOCK)
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101))
  AND (CAST(:business_entity AS VARCHAR(21)) IS NULL OR BusinessEntity = CAST(:business_entity AS VARCHAR(21)));

-- Databases that ignore lock hints compare the version again.
-- name: counterparty_settle
UPDATE TB_COUNTERPARTIES
SET Status = :status, StatusMessage = :message, UpdatedAt = :now, Version = Version + 1
WHERE Id = :id AND CASE WHEN Version = :version THEN 1 ELSE 0 END = 1;

-- Counterparties as clients see them: all, and those of one client.
-- template: counterparties.sqlt
-- with: name = counterparty

-- template: counterparties.sqlt
-- with: name = own_counterparty
-- with: whose = AND c.ClientId = :client

-- A page of a list.
-- name: counterparty_rows
-- row: counterparty
SELECT c.Id, c.BusinessDocId, c.BusinessAppId, c.BusinessEntity, c.OriginalBusinessDocId, c.CounterpartyId,
       c.EntityType, c.Name, c.LocalName, c.SearchName, c.ReferenceCode, c.IsDeleted, c.Source, c.Status, c.CreatedAt,
       c.UpdatedAt, c.StatusMessage, c.Version
FROM TB_COUNTERPARTIES AS c
WHERE c.Id IN EACH_INT(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN c.Id ELSE -c.Id END;
