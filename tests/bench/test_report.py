"""The document that benchmarks write to."""

from pathlib import Path

from bench.report import markdown_table, micros, number, write_section


def test_a_section_is_replaced_and_the_others_stay(tmp_path: Path):
    document = tmp_path / "benchmarks.md"
    write_section("one", "first", path=document)
    write_section("two", "second", path=document)
    write_section("one", "first again", path=document)
    assert document.read_text() == (
        "# Benchmarks\n\n<!-- one -->\nfirst again\n<!-- /one -->\n\n<!-- two -->\nsecond\n<!-- /two -->\n"
    )


def test_a_table_has_a_rule_below_its_head():
    assert markdown_table(["a", "b"], [["1", "2"]]) == ["| a | b |", "|---|---|", "| 1 | 2 |"]


def test_what_was_not_measured_is_a_dash():
    assert (micros(None), micros(1.5e-6), number(None), number(2.0, 2)) == ("–", "1.5", "–", "2.00")
