ALTER TABLE offset_history DROP COLUMN token_id, DROP COLUMN client_address;
ALTER TABLE offsets DROP COLUMN token_id, DROP COLUMN client_address;
