DROP TABLE timeout_advice, timeout_advice_staging;
