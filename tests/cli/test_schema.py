"""`ragbench schema`."""

import json

from click.testing import CliRunner

from ragbench.cli.configs import schema
from ragbench.config.json_schema import config_schema


def test_prints_the_schema():
    result = CliRunner().invoke(schema)

    assert result.exit_code == 0
    assert json.loads(result.stdout) == config_schema()


def test_writes_a_file(tmp_path):
    file = tmp_path / "new" / "schema.json"

    result = CliRunner().invoke(schema, ["-o", str(file)])

    assert result.exit_code == 0
    assert result.stdout == ""
    assert file.read_text(encoding="utf-8") == CliRunner().invoke(schema).stdout


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")

    result = CliRunner().invoke(schema, ["-o", str(tmp_path / "file" / "schema.json")])

    assert result.exit_code != 0
    assert "cannot be written" in str(result.exception)


def test_an_object_of_one_value_stands_on_one_line():
    text = CliRunner().invoke(schema, []).stdout

    assert '{"$ref": "#/$defs/variable"}' in text
    assert json.loads(text) == config_schema()
