"""`muster doctor`: checks everything that Muster depends on."""

# ruff: noqa: PLC0415 - a command loads only what it needs, so that each answers at once

from muster.commands.command_tree import command_group
from muster.commands.options import DataDirOption, JsonOption, UrlOption

app = command_group("Check everything.")


@app.command()
def doctor(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Check the installation and report problems.

    Checks the settings, the disk, the ports, Postgres, the schema, the database's roles, the incarnation, the
    leases, the constraints, the offsets, the clocks, the stored groups, a node, the tokens, Java, the JDBC driver and
    Airflow, and changes nothing. The exit code is 1 if a check fails.
    """
    from muster.commands.doctor_checks import print_results, run_checks

    print_results(run_checks(url, data_dir), as_json=as_json)
