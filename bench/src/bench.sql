-- What the benchmarks write: a ticket as it arrives, the product's most common document. 31 columns,
-- the primary key, the unique key and four indexes.

-- name: bench_insert
INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode,
    DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode,
    RawPayloadJson, CreatedAt, UpdatedAt)
VALUES (:entity, :doc_id, :company, :branch, :destination, :phase, :event, :ack, :target, :payload,
    :now, :now);
