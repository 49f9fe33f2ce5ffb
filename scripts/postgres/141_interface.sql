-- Tickets that are processed again, and counterparties that another system takes.

-- The PayloadVersion that a person had processed again: its return is sent even if an earlier one was.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS ReturnAgain int NULL;

-- Version: grows with every payload and every change of the status; the ETag is made of it. StatusMessage: what the
-- system said that set the status.
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN IF NOT EXISTS Version int NOT NULL DEFAULT 1;
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN IF NOT EXISTS StatusMessage varchar(2000) NULL;

CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTIES_Status ON TB_COUNTERPARTIES (Status, Id);
