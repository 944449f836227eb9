-- The origin of commits that rewind, and of commits without a member.

ALTER TABLE offsets ADD COLUMN token_id text, ADD COLUMN client_address text;
ALTER TABLE offset_history ADD COLUMN token_id text, ADD COLUMN client_address text;
