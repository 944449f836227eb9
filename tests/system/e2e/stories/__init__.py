"""Stories of groups, played by real agents on a real node: what the consumers are told, and what the ledger says."""
