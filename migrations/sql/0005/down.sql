DROP TABLE
    assignment_balance_audits,
    assignment_balance_audits_staging,
    assignment_balance_topics,
    assignment_balance_topics_staging,
    rebalance_frequency_reports,
    rebalance_frequency_reports_staging;
