-- Counterparties with their addresses and fiscal references.
--
-- The CASTs are for SQL Server, where parameters are NVARCHAR and the columns are not: their indexes would not be used.
-- One character more than the column has, since a CAST cuts and would find what was not asked for.

-- A row is new while UpdatedAt is NULL. That is for the caller to look at: SQLite 3.40 takes `x IS NULL` in RETURNING
-- for false where the table's first column is NOT NULL. SQL Server answers by a SELECT behind it: in Babelfish
-- @@ROWCOUNT is 0 after an OUTPUT.
-- name: counterparty_upsert
-- dialect: sqlite, postgres
INSERT INTO TB_COUNTERPARTIES (BusinessDocId, BusinessAppId, BusinessEntity, OriginalBusinessDocId, CounterpartyId,
                               EntityType, Name, LocalName, SearchName, ReferenceCode, IsDeleted, Source, Status,
                               CreatedAt, RawPayload)
VALUES (:business_doc_id, :business_app_id, :business_entity, :original_business_doc_id, :counterparty_id,
        :entity_type, :name, :local_name, :search_name, :reference_code, :is_deleted, :source, 'Received',
        :now, :raw_payload)
ON CONFLICT (BusinessDocId) DO UPDATE
SET BusinessAppId = excluded.BusinessAppId, BusinessEntity = excluded.BusinessEntity,
    OriginalBusinessDocId = excluded.OriginalBusinessDocId, CounterpartyId = excluded.CounterpartyId,
    EntityType = excluded.EntityType, Name = excluded.Name, LocalName = excluded.LocalName,
    SearchName = excluded.SearchName, ReferenceCode = excluded.ReferenceCode, IsDeleted = excluded.IsDeleted,
    Source = excluded.Source, Status = excluded.Status, UpdatedAt = excluded.CreatedAt,
    RawPayload = excluded.RawPayload
RETURNING Id, UpdatedAt;
-- dialect: sqlserver
UPDATE TB_COUNTERPARTIES WITH (UPDLOCK, HOLDLOCK)
SET BusinessAppId = :business_app_id, BusinessEntity = :business_entity,
    OriginalBusinessDocId = :original_business_doc_id, CounterpartyId = :counterparty_id,
    EntityType = :entity_type, Name = :name, LocalName = :local_name,
    SearchName = :search_name, ReferenceCode = :reference_code, IsDeleted = :is_deleted,
    Source = :source, Status = 'Received', UpdatedAt = :now,
    RawPayload = :raw_payload
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101));
IF @@ROWCOUNT = 0
    INSERT INTO TB_COUNTERPARTIES (BusinessDocId, BusinessAppId, BusinessEntity, OriginalBusinessDocId, CounterpartyId,
                                   EntityType, Name, LocalName, SearchName, ReferenceCode, IsDeleted, Source, Status,
                                   CreatedAt, RawPayload)
    VALUES (:business_doc_id, :business_app_id, :business_entity, :original_business_doc_id, :counterparty_id,
            :entity_type, :name, :local_name, :search_name, :reference_code, :is_deleted, :source, 'Received',
            :now, :raw_payload);
SELECT Id, UpdatedAt FROM TB_COUNTERPARTIES WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101));

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

-- name: counterparty_get
SELECT Id, BusinessDocId, BusinessAppId, BusinessEntity, OriginalBusinessDocId, CounterpartyId, EntityType, Name,
       LocalName, SearchName, ReferenceCode, IsDeleted, Source, Status, CreatedAt, UpdatedAt, RawPayload
FROM TB_COUNTERPARTIES
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101))
  AND (CAST(:business_entity AS VARCHAR(21)) IS NULL OR BusinessEntity = CAST(:business_entity AS VARCHAR(21)));

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

-- Pages, newest first. A filter that is NULL lets everything pass.

-- name: counterparty_list
SELECT c.Id, c.BusinessDocId, c.BusinessAppId, c.BusinessEntity, c.OriginalBusinessDocId, c.CounterpartyId,
       c.EntityType, c.Name, c.LocalName, c.SearchName, c.ReferenceCode, c.IsDeleted, c.Source, c.Status, c.CreatedAt,
       c.UpdatedAt
FROM TB_COUNTERPARTIES AS c
WHERE (CAST(:business_entity AS VARCHAR(21)) IS NULL OR c.BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
  AND (CAST(:entity_type AS VARCHAR(11)) IS NULL OR c.EntityType = CAST(:entity_type AS VARCHAR(11)))
ORDER BY c.Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT c.Id, c.BusinessDocId, c.BusinessAppId, c.BusinessEntity, c.OriginalBusinessDocId, c.CounterpartyId,
       c.EntityType, c.Name, c.LocalName, c.SearchName, c.ReferenceCode, c.IsDeleted, c.Source, c.Status, c.CreatedAt,
       c.UpdatedAt
FROM TB_COUNTERPARTIES AS c
WHERE (CAST(:business_entity AS VARCHAR(21)) IS NULL OR c.BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
  AND (CAST(:entity_type AS VARCHAR(11)) IS NULL OR c.EntityType = CAST(:entity_type AS VARCHAR(11)))
ORDER BY c.Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: counterparty_count
SELECT COUNT(*)
FROM TB_COUNTERPARTIES AS c
WHERE (CAST(:business_entity AS VARCHAR(21)) IS NULL OR c.BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
  AND (CAST(:entity_type AS VARCHAR(11)) IS NULL OR c.EntityType = CAST(:entity_type AS VARCHAR(11)));

-- With a counterparty's id or a fiscal number, or both: the last condition finds what they name by its index.
-- name: counterparty_find
SELECT c.Id, c.BusinessDocId, c.BusinessAppId, c.BusinessEntity, c.OriginalBusinessDocId, c.CounterpartyId,
       c.EntityType, c.Name, c.LocalName, c.SearchName, c.ReferenceCode, c.IsDeleted, c.Source, c.Status, c.CreatedAt,
       c.UpdatedAt
FROM TB_COUNTERPARTIES AS c
WHERE (CAST(:business_entity AS VARCHAR(21)) IS NULL OR c.BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
  AND (CAST(:entity_type AS VARCHAR(11)) IS NULL OR c.EntityType = CAST(:entity_type AS VARCHAR(11)))
  AND (CAST(:counterparty_id AS VARCHAR(51)) IS NULL OR c.CounterpartyId = CAST(:counterparty_id AS VARCHAR(51)))
  AND (CAST(:fiscal_number AS VARCHAR(31)) IS NULL
       OR EXISTS (SELECT 1 FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS f
                  WHERE f.CounterpartyIdFk = c.Id AND f.FiscalNumber = CAST(:fiscal_number AS VARCHAR(31))))
  AND c.Id IN (SELECT i.Id FROM TB_COUNTERPARTIES AS i WHERE i.CounterpartyId = CAST(:counterparty_id AS VARCHAR(51))
               UNION
               SELECT n.CounterpartyIdFk FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS n
               WHERE n.FiscalNumber = CAST(:fiscal_number AS VARCHAR(31)))
ORDER BY c.Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT c.Id, c.BusinessDocId, c.BusinessAppId, c.BusinessEntity, c.OriginalBusinessDocId, c.CounterpartyId,
       c.EntityType, c.Name, c.LocalName, c.SearchName, c.ReferenceCode, c.IsDeleted, c.Source, c.Status, c.CreatedAt,
       c.UpdatedAt
FROM TB_COUNTERPARTIES AS c
WHERE (CAST(:business_entity AS VARCHAR(21)) IS NULL OR c.BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
  AND (CAST(:entity_type AS VARCHAR(11)) IS NULL OR c.EntityType = CAST(:entity_type AS VARCHAR(11)))
  AND (CAST(:counterparty_id AS VARCHAR(51)) IS NULL OR c.CounterpartyId = CAST(:counterparty_id AS VARCHAR(51)))
  AND (CAST(:fiscal_number AS VARCHAR(31)) IS NULL
       OR EXISTS (SELECT 1 FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS f
                  WHERE f.CounterpartyIdFk = c.Id AND f.FiscalNumber = CAST(:fiscal_number AS VARCHAR(31))))
  AND c.Id IN (SELECT i.Id FROM TB_COUNTERPARTIES AS i WHERE i.CounterpartyId = CAST(:counterparty_id AS VARCHAR(51))
               UNION
               SELECT n.CounterpartyIdFk FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS n
               WHERE n.FiscalNumber = CAST(:fiscal_number AS VARCHAR(31)))
ORDER BY c.Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: counterparty_find_count
SELECT COUNT(*)
FROM TB_COUNTERPARTIES AS c
WHERE (CAST(:business_entity AS VARCHAR(21)) IS NULL OR c.BusinessEntity = CAST(:business_entity AS VARCHAR(21)))
  AND (CAST(:entity_type AS VARCHAR(11)) IS NULL OR c.EntityType = CAST(:entity_type AS VARCHAR(11)))
  AND (CAST(:counterparty_id AS VARCHAR(51)) IS NULL OR c.CounterpartyId = CAST(:counterparty_id AS VARCHAR(51)))
  AND (CAST(:fiscal_number AS VARCHAR(31)) IS NULL
       OR EXISTS (SELECT 1 FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS f
                  WHERE f.CounterpartyIdFk = c.Id AND f.FiscalNumber = CAST(:fiscal_number AS VARCHAR(31))))
  AND c.Id IN (SELECT i.Id FROM TB_COUNTERPARTIES AS i WHERE i.CounterpartyId = CAST(:counterparty_id AS VARCHAR(51))
               UNION
               SELECT n.CounterpartyIdFk FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS n
               WHERE n.FiscalNumber = CAST(:fiscal_number AS VARCHAR(31)));
