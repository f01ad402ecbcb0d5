from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagopt.errors import InputError
from dagopt.events.profile_file import read_profile, write_profile
from dagopt.model.stage_profile import StageProfile

if TYPE_CHECKING:
    from pathlib import Path


def profile(signature: str = "s []", **more: Any) -> StageProfile:
    fields = {
        "num_runs": 2,
        "num_tasks": 10,
        "read_bytes_per_task": 1e6,
        "cpu_s_per_task": 0.5,
        "io_wait_s_per_task": 0.25,
        "io_bytes_per_s": 4e6,
        "spilled_bytes_per_task": 0.0,
        "peak_memory_bytes": 1 << 40,
        "executor_cpu_s_per_task": 0.4,
        "python": False,
        "coverage": 1.0,
        **more,
    }
    return StageProfile(signature=signature, **fields)


def rewrite(path: Path, change: Any) -> None:
    """Write the file again, with its table changed."""
    pq.write_table(change(pq.read_table(path)), path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "profile.parquet"
    odd = profile(
        "b [] \N{SNOWMAN}", io_bytes_per_s=None, executor_cpu_s_per_task=None, python=True
    )
    write_profile(path, [odd, profile("a []")])
    found = read_profile(path)
    assert list(found.by_signature.values()) == [profile("a []"), odd]
    assert found.find("a []") == profile("a []")


def test_no_profiles_make_an_empty_file(tmp_path: Path) -> None:
    write_profile(tmp_path / "p", [])
    assert len(read_profile(tmp_path / "p")) == 0


def test_the_same_profiles_make_the_same_bytes(tmp_path: Path) -> None:
    several = [profile(f"{n} []") for n in range(9)]
    write_profile(tmp_path / "p", several)
    write_profile(tmp_path / "q", reversed(several))
    assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    write_profile(tmp_path / "p", [profile()])
    write_profile(tmp_path / "p", [profile("t []")])
    assert list(tmp_path.iterdir()) == [tmp_path / "p"]


def test_a_folder_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="p: cannot be written: No such file"):
        write_profile(tmp_path / "gone" / "p", [profile()])


@pytest.mark.parametrize("data", [b"", b"hello", b"PAR1" + b"\0" * 30 + b"PAR1"])
def test_what_is_not_parquet_is_an_input_error(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(data)
    with pytest.raises(InputError) as raised:
        read_profile(path)
    assert str(raised.value).startswith(f"{path}: not a Parquet file, or a damaged one: ")
    assert "\n" not in str(raised.value)


def test_a_cut_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile()])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a Parquet file, or a damaged one"):
        read_profile(path)


def test_damage_inside_the_data_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile()])
    data = bytearray(path.read_bytes())
    data[4:60] = b"\xff" * 56
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"^{path}: not a Parquet file, or a damaged one"):
        read_profile(path)


@pytest.mark.parametrize("make", ["nothing", "folder"])
def test_what_cannot_be_read_is_an_input_error(make: str, tmp_path: Path) -> None:
    path = tmp_path / "p"
    if make == "folder":
        path.mkdir()
    with pytest.raises(InputError, match=f"^{path}: cannot be read: "):
        read_profile(path)


def test_a_foreign_parquet_file_is_an_input_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "p")
    with pytest.raises(InputError, match="but not a profile that dagopt learn wrote"):
        read_profile(tmp_path / "p")


def test_another_version_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile()])
    version = {b"dagopt.stage_profile.version": b"2"}
    rewrite(path, lambda table: table.replace_schema_metadata(version))
    with pytest.raises(InputError, match="schema version 2, this dagopt reads 1; run dagopt learn"):
        read_profile(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile()])
    rewrite(path, lambda table: table.drop_columns(["coverage"]))
    with pytest.raises(InputError, match="column coverage is missing"):
        read_profile(path)


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile()])
    column = pa.array(["ten"])
    rewrite(path, lambda t: t.set_column(t.column_names.index("num_tasks"), "num_tasks", column))
    with pytest.raises(InputError, match="column num_tasks: expected int64, got string"):
        read_profile(path)


def test_an_impossible_value_is_named_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile("a []"), profile("b []")])
    column = pa.array([0.5, float("nan")])
    rewrite(path, lambda t: t.set_column(t.column_names.index("coverage"), "coverage", column))
    with pytest.raises(InputError) as raised:
        read_profile(path)
    said = "row 1: stage profile 'b []': coverage is nan, must be 0..1"
    assert str(raised.value) == f"{path}: {said}"


def test_a_missing_value_is_named_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile("a []")])
    column = pa.array([None], pa.float64())
    rewrite(path, lambda t: t.set_column(t.column_names.index("coverage"), "coverage", column))
    with pytest.raises(InputError, match="row 0: coverage is missing"):
        read_profile(path)


def test_more_columns_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "p"
    write_profile(path, [profile()])
    rewrite(path, lambda table: table.append_column("later", pa.array([1])))
    assert read_profile(path).find("s []") == profile()


def test_every_field_has_its_column(tmp_path: Path) -> None:
    write_profile(tmp_path / "p", [profile()])
    names = [field.name for field in dataclasses.fields(StageProfile)]
    assert pq.read_schema(tmp_path / "p").names == names
