"""`muster doctor`: what Muster stands on, looked at piece by piece."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from muster.commands.options import DataDirOption, JsonOption, UrlOption
from muster.commands.tree import command_group

app = command_group("Check everything.")


@app.command()
def doctor(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Check all that Muster stands on, and say what to do.

    It looks at the settings, the disk, the ports, Postgres, the schema, the database's roles, the incarnation, the
    leases, the constraints, the clocks, the stored groups, a node, the tokens, Java, the JDBC driver and Airflow. It
    changes nothing. The exit code is 1 if something is wrong.
    """
    from muster.commands.checkup import check_everything, print_findings

    print_findings(check_everything(url, data_dir), as_json=as_json)
