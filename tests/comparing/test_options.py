"""Every face of `compare` has the same options under the same names."""

from __future__ import annotations

import inspect

from firstdiff.cli.compare import compare as command
from firstdiff.comparing import Options, compare
from firstdiff.server.options import FORM_OPTIONS
from firstdiff.server.schemas import OptionsIn

OPTIONS = set(inspect.signature(Options.of).parameters)
# the runs themselves, how the result is shown, or `--as`, which asks another question of the same two runs
REPORT_ONLY = {"reference", "candidate", "sort", "every_row", "format_", "output", "as_", "control"}


def test_the_call_takes_every_option() -> None:
    names = set(inspect.signature(compare).parameters) - {"reference", "candidate", "control", "on_progress"}
    assert names == OPTIONS - {"tolerances_text"}


def test_the_command_takes_every_option() -> None:
    names = {name.replace("map_file", "map") for name in inspect.signature(command).parameters} - REPORT_ONLY
    assert names == OPTIONS - {"tolerances_text", "diagnose"}


def test_the_page_knows_its_options_by_the_same_names() -> None:
    assert set(OptionsIn.model_fields) == {*FORM_OPTIONS, "tolerances", "map", "layer_offset", "control"}
    assert set(FORM_OPTIONS) <= OPTIONS


def test_the_json_says_every_option_that_changes_the_result() -> None:
    assert set(Options().settings()) == OPTIONS - {"tolerances_text", "map", "threads"} | {"named_tolerances"}
