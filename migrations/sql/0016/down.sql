ALTER TABLE nodes DROP COLUMN renewals;
DROP TABLE incarnation;
