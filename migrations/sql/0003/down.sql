DROP TABLE
    cleanup_candidates, cleanup_candidates_staging, offset_expiry_forecasts, offset_expiry_forecasts_staging;
