"""The GPU job against a slow and obvious computation of the same, one pixel after another."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.dataset
import pytest
from PIL import Image

from jobs.gpu_inference import CROP_PIXELS, PHOTOGRAPHS, network_weights, prepare
from tests.conftest import ROOT, run_spark
from tests.jobs.conftest import JobRunner
from tests.spark.gpu_cluster import gpu_conf, needs_profiles_in_sql

EDGE = 8
NUM_IMAGES = 24
NUM_FILES = 8

JOB = ROOT / "jobs" / "gpu_inference.py"


def rows_of(directory: Path, order: str = "image") -> list[dict[str, Any]]:
    table = pyarrow.dataset.dataset(directory).to_table().sort_by(order)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def filtered(image: list[Any], filters: Any) -> list[Any]:
    """3 x 3 filters and what is above 0 of their values, with loops."""
    _, _, num_in, num_out = filters.shape
    size = len(image) - 2
    return [
        [
            [
                max(
                    0.0,
                    sum(
                        image[y + dy][x + dx][source] * filters[dy, dx, source, target]
                        for dy in range(3)
                        for dx in range(3)
                        for source in range(num_in)
                    ),
                )
                for target in range(num_out)
            ]
            for x in range(size)
        ]
        for y in range(size)
    ]


def expected_score(jpeg: bytes) -> tuple[int, float]:
    pixels = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB").resize((EDGE, EDGE)))
    weights = network_weights()
    hidden = filtered((pixels / 255.0).tolist(), weights["first"])
    half = len(hidden) // 2
    pooled = [
        [
            [
                sum(hidden[2 * y + dy][2 * x + dx][target] for dy in (0, 1) for dx in (0, 1)) / 4
                for target in range(len(hidden[0][0]))
            ]
            for x in range(half)
        ]
        for y in range(half)
    ]
    last = filtered(pooled, weights["second"])
    means = [
        sum(last[y][x][target] for y in range(len(last)) for x in range(len(last))) / len(last) ** 2
        for target in range(len(last[0][0]))
    ]
    raw = [sum(m * w for m, w in zip(means, column, strict=True)) for column in weights["dense"].T]
    powers = [math.exp(value - max(raw)) for value in raw]
    label = max(range(len(raw)), key=lambda index: raw[index])
    return label, powers[label] / sum(powers)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data") / "images"
    prepare(directory, NUM_IMAGES, NUM_FILES)
    return directory


def test_images_are_crops_of_all_photographs_in_as_many_files_as_asked(images: Path) -> None:
    rows = rows_of(images)
    assert [row["image"] for row in rows] == list(range(NUM_IMAGES))
    assert {row["source"] for row in rows} == set(PHOTOGRAPHS)
    assert len(list(images.glob("part-*.parquet"))) == NUM_FILES
    assert len({row["jpeg"] for row in rows}) == NUM_IMAGES
    for row in rows:
        image = Image.open(io.BytesIO(row["jpeg"]))
        assert (image.format, image.size) == ("JPEG", (CROP_PIXELS, CROP_PIXELS))


def test_the_same_images_are_made_once(images: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in images.iterdir())
    prepare(images, NUM_IMAGES, NUM_FILES)
    assert sorted((path, path.stat().st_mtime_ns) for path in images.iterdir()) == before
    with pytest.raises(click.UsageError, match="take another"):
        prepare(images, NUM_IMAGES + 1, NUM_FILES)


@pytest.mark.spark
@needs_profiles_in_sql
@pytest.mark.slow
def test_scores_are_those_of_the_slow_computation_in_both_forms(
    spark_jar: Path, images: Path, tmp_path: Path
) -> None:
    assert spark_jar.is_file()
    found = {}
    for form in ("fused", "split"):
        conf = {**gpu_conf(tmp_path, cores=2), "spark.dagopt.boundary": "always"}
        conf["spark.dagopt.planner.timeout"] = "60s"
        conf["spark.dagopt.decisionLog"] = str(tmp_path / "decisions")
        arguments = ["--input", str(images), "--output", str(tmp_path / form)]
        arguments += ["--edge", str(EDGE), "--batch-size", "2"]
        if form == "fused":
            conf = gpu_conf(tmp_path, cores=2)
        run_spark(tmp_path, JOB, *arguments, conf=conf, dagopt=form == "split").ok()
        found[form] = rows_of(tmp_path / form)
    assert found["split"] == found["fused"]
    assert '"boundary_before":true' in (tmp_path / "decisions").read_text().replace(" ", "")
    jpegs = {row["image"]: row["jpeg"] for row in rows_of(images)}
    assert [row["image"] for row in found["fused"]] == list(range(NUM_IMAGES))
    for row in found["fused"]:
        label, score = expected_score(jpegs[row["image"]])
        assert row["label"] == label
        assert row["score"] == pytest.approx(score, abs=1e-6)


@pytest.mark.spark
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path: Path, submit: JobRunner) -> None:
    done = submit("gpu_inference", "--input", tmp_path, "--output", tmp_path / "out", "--cpu")
    assert done.returncode == 2
    # spark-submit prints what the Python process writes to stderr to its own stdout.
    lines = [line for line in done.stdout.splitlines() if line.startswith("gpu_inference: ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"gpu_inference: --input {tmp_path}: ")
    assert "Traceback" not in done.stdout
