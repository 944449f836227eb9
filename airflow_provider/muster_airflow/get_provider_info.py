"""Description of the provider for Airflow, which reads it through the entry point `apache_airflow_provider`."""

from typing import Any

INTEGRATION = "Muster"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata. Source: Airflow, `provider_info.schema.json`."""
    return {
        "package-name": "muster-airflow",
        "name": INTEGRATION,
        "description": "Wait for consumer groups of Muster, and reset their offsets.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["service"]}],
        "hooks": [_modules("hooks.muster")],
        "sensors": [_modules("sensors.consumer_group")],
        "triggers": [_modules("triggers.consumer_group")],
        "operators": [_modules("operators.reset_offsets")],
        "connection-types": [
            {
                "connection-type": "muster",
                "hook-name": INTEGRATION,
                "hook-class-name": "muster_airflow.hooks.muster.MusterHook",
                "ui-field-behaviour": {
                    "hidden-fields": ["login"],
                    "relabeling": {"host": "Nodes", "schema": "Scheme", "password": "Token"},
                    "placeholders": {
                        "host": "node-1.example.com,node-2.example.com:8443",
                        "port": "8080",
                        "schema": "http, or https",
                    },
                },
                "conn-fields": {
                    "ca_file": {
                        "label": "CA file",
                        "description": "Certificates to verify nodes with; default: those of httpx",
                        "schema": {"type": ["string", "null"]},
                    },
                    "client_certificate_file": {
                        "label": "Client certificate",
                        "description": "Sent to nodes that ask for one; PEM, with its key unless there is a key file",
                        "schema": {"type": ["string", "null"]},
                    },
                    "client_key_file": {
                        "label": "Client key",
                        "schema": {"type": ["string", "null"]},
                    },
                    "verify": {
                        "label": "Verify certificates",
                        "schema": {"type": ["boolean", "null"], "default": True},
                    },
                    "timeout_s": {
                        "label": "Timeout in seconds",
                        "description": "For each part of a response",
                        "schema": {"type": ["number", "null"], "default": 30},
                    },
                    "console_url": {
                        "label": "Console",
                        "description": "The console's address for browsers, in links; default: the first node",
                        "schema": {"type": ["string", "null"]},
                    },
                },
            }
        ],
    }


def _modules(name: str) -> dict[str, Any]:
    return {"integration-name": INTEGRATION, "python-modules": [f"muster_airflow.{name}"]}
