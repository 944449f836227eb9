DROP VIEW dashboards.slowest_members, dashboards.spurious_evictions;
DROP TABLE rebalance_members, member_sessions;
