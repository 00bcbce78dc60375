"""`ragbench schema`."""

import json

from click.testing import CliRunner

from ragbench.cli.schema import command
from ragbench.config.json_schema import config_schema


def test_prints_the_schema():
    result = CliRunner().invoke(command)

    assert result.exit_code == 0
    assert json.loads(result.stdout) == config_schema()


def test_writes_a_file(tmp_path):
    file = tmp_path / "new" / "schema.json"

    result = CliRunner().invoke(command, ["-o", str(file)])

    assert result.exit_code == 0
    assert result.stdout == ""
    assert file.read_text(encoding="utf-8") == CliRunner().invoke(command).stdout


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")

    result = CliRunner().invoke(command, ["-o", str(tmp_path / "file" / "schema.json")])

    assert result.exit_code != 0
    assert "cannot write" in result.stderr
