-- Tickets that are processed again, and counterparties that another system takes.

-- The PayloadVersion that a person had processed again: its return is sent even if an earlier one was.
-- add column if missing: TB_TICKET_INTERFACE ReturnAgain
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN ReturnAgain INT NULL;

-- Version: grows with every payload and every change of the status; the ETag is made of it. StatusMessage: what the
-- system said that set the status.
-- add column if missing: TB_COUNTERPARTIES Version
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN Version INT NOT NULL DEFAULT 1;
-- add column if missing: TB_COUNTERPARTIES StatusMessage
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN StatusMessage NVARCHAR(2000) NULL CHECK (length(StatusMessage) <= 2000);

CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTIES_Status ON TB_COUNTERPARTIES (Status, Id);
