"""What every listener needs, with HTTP or with Kafka's protocol.

Read in this order: `node_context` and `client_request` (what a listener is given, and what it makes of each request),
`identity`, `tokens` and `authorization` (who may do what), `limits`, `connection_gate`, `body_budget`, `turns`,
`quotas` and `deadlines` (how much, and for how long), `request_metrics`, `member_ids`.
"""
