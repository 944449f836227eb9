"""Commands of docs/agent.md work as written."""

import argparse
import re
import shlex
from contextlib import closing

from tests.support.http_client import Client
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "agent.md").read_text()


def test_the_documented_command_sets_the_partition_count_of_a_topic(node_url: str) -> None:
    (command,) = re.findall(r"^\$ curl (.*?)\n```", PAGE, flags=re.MULTILINE | re.DOTALL)
    parser = argparse.ArgumentParser()  # of the options of curl
    parser.add_argument("address")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append")
    parser.add_argument("-d", dest="data")
    asked = parser.parse_args(shlex.split(command.replace("\\\n", " ").replace("$USER", "ada")))
    path = asked.address.removeprefix("localhost:8080")
    with closing(Client(node_url)) as client:
        headers = dict(header.split(": ") for header in asked.headers)
        assert client.send(asked.method, path, asked.data.encode(), headers).status == 200
        topics = {each["topic"]: each["partitions"] for each in client.ok("GET", "/v1/topics")["topics"]}
    assert topics["invoices"] == 12
