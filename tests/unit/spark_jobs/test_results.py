"""Tests of results: lines that jobs print, links to the console, and the text of an approval."""

import pytest

from api.shared.limits import REASON_MAX_CHARS
from spark_jobs import submit
from spark_jobs.job_runner import Result, output_lines

RUN = submit.MaintenanceRun("r-1", "proposed", {"candidates": 7, "of": 100, "groups": 3})


def test_result_of_a_job_is_read_from_its_output() -> None:
    values = {"counts": {"candidates": 2}, "largest_groups": [["a", 2]]}
    lines = ["WARN", submit.result_line("group_cleanup", values), submit.result_line("other", {}), "done"]
    assert submit.read_result("group_cleanup", lines) == values
    assert submit.read_result("history_archive", lines) == {}


def test_result_is_in_the_last_lines_of_a_long_output() -> None:
    values = {"counts": {"unverified": 50}}
    text = "\n".join([*(f"history_archive: the copy of day {day} did not match" for day in range(50)), "summary"])
    lines = output_lines("history_archive", Result(text, values))
    assert (len(lines), lines[-1]) == (52, "summary")
    assert submit.read_result("history_archive", lines[-20:]) == values


def test_result_of_a_run_has_its_counts_and_a_link() -> None:
    result = submit.result_of_run(RUN, submit.console_url("http://node:8080/", "r-1"))
    assert (result["status"], result["counts"]) == ("proposed", RUN.counts)
    line = "Counts: candidates 7, of 100, groups 3. See http://node:8080/#/maintenance/r-1"
    assert submit.describe_result(result) == line
    assert submit.console_url("https://muster.example.org") == "https://muster.example.org/#/reports"


def test_result_without_rows_says_why() -> None:
    result = {"counts": {"frequency_reports": 0}, "why_nothing": "there are no groups", "console": "http://node"}
    line = "Counts: frequency_reports 0 (there are no groups). See http://node"
    assert submit.describe_result(result) == line
    assert submit.describe_result({**result, "why_nothing": None}) == "Counts: frequency_reports 0. See http://node"


def test_approval_says_what_would_be_removed_from_whom_and_beyond_which_limit() -> None:
    url = "https://muster.example.org/#/maintenance/r-1"
    job = submit.JOBS["offset_retention"]
    exceeded = submit.Limits(max_candidates=5).exceeded_by(RUN.counts, job.name)
    assert "more than 5 (max_candidates, MUSTER_OFFSET_RETENTION_MAX_CANDIDATES)" in exceeded[0]
    assert submit.approval_text(job, RUN, exceeded, [("nightly", 5), ("a`[b](c)\n# d", 2)], url).split("\n\n") == [
        "This run would expire 7 of 100 committed offsets, of 3 groups.",
        "Groups with most of them: `nightly` (5), `a'[b](c) # d` (2).",
        f"It waits for approval because: {exceeded[0]}",
        "[Run r-1 in the console](https://muster.example.org/#/maintenance/r-1) lists every candidate.",
    ]


def test_text_of_a_rejection_fits_the_reason_of_a_change() -> None:
    rejection = {"run_id": "r-0", "actor": "ada", "at": "2026-11-20T10:00:00Z", "reason": None}
    text = "the candidates are those of run r-0, which ada rejected at 2026-11-20T10:00:00Z: no reason was given"
    assert submit.rejection_text(rejection) == text
    assert len(submit.rejection_text({**rejection, "reason": "x" * REASON_MAX_CHARS})) == REASON_MAX_CHARS


@pytest.mark.parametrize("job", submit.PROPOSALS)
def test_approval_without_counts_says_so(job: str) -> None:
    run = submit.MaintenanceRun("r-1", "proposed", {})
    text = submit.approval_text(submit.JOBS[job], run, ["The proposal has no counts."], [], "http://node:8080")
    assert "an unknown number of all" in text
    assert "Groups with most" not in text


def test_the_rejection_that_holds_is_read_if_the_node_names_one() -> None:
    answer = {"run_id": "r-1", "status": "proposed", "counts": {}}
    held_by = {"run_id": "r-0", "actor": "ada", "at": "2026-11-20T10:00:00Z", "reason": "too many"}

    assert submit.MaintenanceRun.from_json(answer).held_by is None
    assert submit.MaintenanceRun.from_json({**answer, "held_by": held_by}).held_by == held_by
