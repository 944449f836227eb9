"""Test modules and conftests import helpers, nothing imports them, and their requests wait as long as tests do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.collection import LONGEST_FIRST, QUICK_IN_A_BROWSER, SHARED_SYSTEMS, unit_of
from tests.support.repository import ROOT, written

MODULES = [path for path in written(".py") if path.is_relative_to(ROOT / "tests")]


def imported(source: str) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports, names of modules included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    """Tell whether a name is a test module of ours, a conftest, or something in one."""
    path = ROOT.joinpath(*name.split("."))
    return any(
        file.with_suffix(".py").is_file() and (file.name.startswith("test_") or file.name == "conftest")
        for file in (path, path.parent)
    )


def test_an_import_is_recognised_in_each_of_its_forms() -> None:
    forms = (
        "import tests.conftest",
        "from tests.conftest import databases",
        "from tests.unit.repository import test_test_modules",
    )
    assert [is_test_module(next(imported(form))) for form in forms] == [True, True, True]
    assert not is_test_module(next(imported("from tests.support import waiting")))


def test_no_module_imports_from_a_test_module_or_a_conftest() -> None:
    assert MODULES
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in imported(path.read_text())
        if is_test_module(name)
    }
    assert found == set()


def test_files_that_run_first_or_share_a_process_exist() -> None:
    assert [path for path in (*LONGEST_FIRST, *SHARED_SYSTEMS, QUICK_IN_A_BROWSER) if not (ROOT / path).exists()] == []


def test_files_that_share_a_system_are_one_unit_and_each_other_file_is_one() -> None:
    shared = {
        unit_of("tests/integration/spark/test_publish.py::test_a"),
        unit_of("tests/integration/spark/archive/test_drop_kill.py::test_b"),
    }
    assert len(shared) == 1
    assert unit_of("tests/unit/repository/test_words.py::test_c[x]") == "tests/unit/repository/test_words.py"


def test_no_request_has_the_timeout_of_urllib3_which_is_3_s() -> None:
    calls = (
        (path, call)
        for path in MODULES
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "urllib3.request"
    )
    hasty = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, call in calls
        if "timeout" not in {keyword.arg for keyword in call.keywords}
    ]
    assert hasty == []
