r"""Scores for a folder of JPEG images: decode on CPUs, a small convolutional network on GPUs.

Reads Parquet of JPEG images, decodes and resizes them with Pillow, runs the network in batches on cupy
where the task has a GPU and on numpy where not, and writes a row per image::

    OUTPUT/    image, source, label, score

    spark-submit --properties-file spark_conf/gpu-standalone.conf jobs/gpu_inference.py \
        --prepare --input build/data/images --output build/scores

``--prepare`` makes the images: crops of the photographs that scikit-image ships, encoded anew. The
weights of the network are fixed random numbers, so scores mean nothing; what is real is the work. It
computes with 64 bits and rounds, so that scores depend neither on how rows were batched nor on the device.

The GPU step has a resource profile of ``dagopt.gpu_profile``. Spark alone runs decode and the network
in one stage under it; what dagopt makes of that is switched on by configuration, and changes no row.
"""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import dagopt
from dagopt.errors import DagoptError

Batches: TypeAlias = Iterator[pa.RecordBatch]

# The photographs in colour among the files of scikit-image's wheel.
PHOTOGRAPHS = (
    *("astronaut.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg", "ihc.png"),
    *("motorcycle_left.png", "motorcycle_right.png", "retina.jpg", "rocket.jpg"),
)

CROP_PIXELS = 288
"""Edge of a crop: all photographs are larger."""

COLUMNS = ["image", "source", "jpeg"]
DECODED_SCHEMA = "image bigint, source string, pixels binary"
SCORES_SCHEMA = "image bigint, source string, label int, score double"

NUM_LABELS = 10

# All of a file in one partition, and each in one of its own, whatever their sizes are.
ONE_FILE_A_PARTITION: dict[str, bool | float | int | str | None] = {
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.openCostInBytes": "128m",
}


def prepare(directory: Path, num_images: int, num_files: int) -> None:
    """Write JPEG images to Parquet files in ``directory``, unless these are there.

    The same numbers give the same images.

    Raises:
        click.UsageError: the directory holds something else, or scikit-image is not installed.
    """
    made = {"images": num_images, "files": num_files}
    if directory.exists():
        marker = directory / "_made.json"
        held = json.loads(marker.read_text(encoding="utf-8")) if marker.exists() else None
        if held != made:
            raise click.UsageError(f"{directory} exists with {held}, not {made}: take another")
        return
    photographs = example_photographs()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
        target = Path(scratch) / "images"
        target.mkdir()
        for index, numbers in enumerate(np.array_split(np.arange(num_images), num_files)):
            rows = [{"image": int(number), **_crop(int(number), photographs)} for number in numbers]
            table = pa.Table.from_pylist(rows)
            pyarrow.parquet.write_table(table, target / f"part-{index:04}.parquet")
        (target / "_made.json").write_text(json.dumps(made) + "\n", encoding="utf-8")
        target.rename(directory)


def example_photographs() -> dict[str, Any]:
    """Pillow images by name. scikit-image itself is not imported, only its files are read.

    Raises:
        click.UsageError: it is not installed.
    """
    from PIL import Image

    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise click.UsageError("--prepare needs: pip install scikit-image")
    data = Path(spec.submodule_search_locations[0]) / "data"
    return {name: Image.open(data / name).convert("RGB") for name in PHOTOGRAPHS}


def _crop(number: int, photographs: dict[str, Any]) -> dict[str, Any]:
    random = np.random.default_rng(number)
    name = PHOTOGRAPHS[number % len(PHOTOGRAPHS)]
    photograph = photographs[name]
    left = int(random.integers(photograph.width - CROP_PIXELS + 1))
    top = int(random.integers(photograph.height - CROP_PIXELS + 1))
    jpeg = io.BytesIO()
    crop = photograph.crop((left, top, left + CROP_PIXELS, top + CROP_PIXELS))
    crop.save(jpeg, "JPEG", quality=90)
    return {"source": name, "jpeg": jpeg.getvalue()}


def decoder(edge: int) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: JPEG images to ``edge * edge * 3`` bytes of pixels each."""

    def decode(batches: Batches) -> Batches:
        for batch in batches:
            pixels = [pixels_of(jpeg, edge) for jpeg in batch.column("jpeg").to_pylist()]
            columns = [batch.column("image"), batch.column("source"), pa.array(pixels, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["image", "source", "pixels"])

    return decode


def pixels_of(jpeg: bytes, edge: int) -> bytes:
    """The pixels of a JPEG image, resized to ``edge`` x ``edge``, three bytes each."""
    from PIL import Image

    return Image.open(io.BytesIO(jpeg)).convert("RGB").resize((edge, edge)).tobytes()


def scorer(edge: int, batch_size: int) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: pixels to a label and its probability, on the task's device."""

    def infer(batches: Batches) -> Batches:
        xp = dagopt.array_module()
        weights = {name: xp.asarray(values) for name, values in network_weights().items()}
        for batch in batches:
            for start in range(0, batch.num_rows, batch_size):
                part = batch.slice(start, batch_size)
                pixels = np.frombuffer(b"".join(part.column("pixels").to_pylist()), np.uint8)
                images = xp.asarray(pixels.reshape(-1, edge, edge, 3)) / 255.0
                chances = network(xp, images, weights)
                # On a GPU, .get copies to the host.
                found = chances.get() if hasattr(chances, "get") else chances
                labels = found.argmax(axis=1).astype(np.int32)
                scores = found.max(axis=1).round(6)
                columns = [part.column("image"), part.column("source")]
                columns += [pa.array(labels), pa.array(scores)]
                yield pa.RecordBatch.from_arrays(columns, ["image", "source", "label", "score"])

    return infer


def network_weights() -> dict[str, np.ndarray[Any, Any]]:
    """Two layers of 3 x 3 filters, ``(3, 3, in, out)`` each, and a dense layer ``(in, out)``."""
    random = np.random.default_rng(0)
    return {
        "first": random.normal(0, 0.3, (3, 3, 3, 8)),
        "second": random.normal(0, 0.2, (3, 3, 8, 16)),
        "dense": random.normal(0, 1.0, (16, NUM_LABELS)),
    }


def network(xp: Any, images: Any, weights: dict[str, Any]) -> Any:
    """Probabilities of the labels.

    Args:
        xp: numpy or cupy.
        images: ``(B, edge, edge, 3)`` values from 0 to 1.
        weights: of :func:`network_weights`, arrays of ``xp``.

    Returns:
        ``(B, NUM_LABELS)`` probabilities.
    """
    hidden = xp.maximum(_filtered(images, weights["first"]), 0)
    edge = hidden.shape[1] // 2 * 2
    halves = [hidden[:, y:edge:2, x:edge:2] for y in (0, 1) for x in (0, 1)]
    hidden = xp.maximum(_filtered(sum(halves) / 4, weights["second"]), 0)
    scores = hidden.mean(axis=(1, 2)) @ weights["dense"]
    powers = xp.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _filtered(images: Any, filters: Any) -> Any:
    """3 x 3 filters over ``(B, H, W, in)``, without padding: ``(B, H - 2, W - 2, out)``."""
    height, width = images.shape[1] - 2, images.shape[2] - 2
    return sum(
        images[:, y : y + height, x : x + width] @ filters[y, x] for y in range(3) for x in range(3)
    )


def scores(
    images: DataFrame, profile: Any | None, *, edge: int = 64, batch_size: int = 32
) -> DataFrame:
    """The pipeline: decode on CPUs, the network under ``profile``."""
    decoded = images.select(COLUMNS).mapInArrow(decoder(edge), DECODED_SCHEMA)
    infer = scorer(edge, batch_size)
    if profile is None:
        return decoded.mapInArrow(infer, SCORES_SCHEMA)
    return decoded.mapInArrow(infer, SCORES_SCHEMA, profile=profile)


@click.command(
    epilog="example: dagopt submit jobs/gpu_inference.py --prepare --input in --output out"
)
@click.option("--input", "location", required=True, help="directory or URI of the images' Parquet")
@click.option("--output", required=True, help="directory or URI to write; it is replaced")
@click.option("--prepare", "wants_data", is_flag=True, help="first write --input from scikit-image")
@click.option(
    "--images", type=click.IntRange(min=1), default=2000, show_default=True, help="with --prepare"
)
@click.option(
    "--files",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="with --prepare: Parquet files, and so partitions",
)
@click.option(
    "--edge",
    type=click.IntRange(min=8),
    default=64,
    show_default=True,
    help="pixels of an image's edge that the network sees",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--gpu/--cpu", "on_gpu", default=True, help="ask for a GPU for the network, or not")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="write a summary here")
def main(
    location: str,
    output: str,
    *,
    wants_data: bool,
    images: int,
    files: int,
    edge: int,
    batch_size: int,
    on_gpu: bool,
    json_file: Path | None,
) -> None:
    """Score JPEG images with a small network, and write the scores as Parquet."""
    if wants_data:
        prepare(Path(location), images, files)
    builder = SparkSession.builder.appName("gpu_inference")
    spark = builder.config(map=ONE_FILE_A_PARTITION).getOrCreate()
    try:
        profile = _profile(spark) if on_gpu else None
        start_s = time.perf_counter()
        found = scores(_read(spark, location), profile, edge=edge, batch_size=batch_size)
        found.write.mode("overwrite").parquet(output)
        elapsed_s = round(time.perf_counter() - start_s, 3)
        summary = {
            "app_id": spark.sparkContext.applicationId,
            "spark": spark.version,
            "elapsed_s": elapsed_s,
            "rows": spark.read.parquet(output).count(),
        }
    finally:
        spark.stop()
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    click.echo(f"wrote {output}: {summary['rows']} scores; {elapsed_s:.1f} s")


def _profile(spark: SparkSession) -> Any | None:
    if spark.version.startswith("3."):
        raise click.UsageError(f"Spark {spark.version} gives operators no profile: use --cpu")
    try:
        return dagopt.gpu_profile()
    except DagoptError as error:
        raise click.UsageError(f"{error}; or use --cpu") from error


def _read(spark: SparkSession, location: str) -> DataFrame:
    try:
        frame = spark.read.parquet(location)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise click.UsageError(f"--input {location}: {reason}") from error
    absent = [column for column in COLUMNS if column not in frame.columns]
    if absent:
        raise click.UsageError(f"--input {location} lacks the columns {', '.join(absent)}")
    return frame


def run() -> int:
    """Run the command; wrong input is one line and exit code 2."""
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"gpu_inference: {error.format_message()}", err=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
