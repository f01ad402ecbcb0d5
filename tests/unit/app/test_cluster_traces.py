from __future__ import annotations

import json
from pathlib import Path

import pytest

from dagopt.app.cluster_traces import read_applications, read_workload
from dagopt.app.topology import read_topology
from dagopt.cli.main import main
from dagopt.errors import InputError
from tests.unit.model.test_topology import TABLE

WORKLOAD = "name,time,application,num_replicas,batch_size\na,10,net,2,64\nb,70,net,4,64\n"
CLUSTER = """
defaults: {local: {gbytes_per_s: 12}, network: {gbytes_per_s: 1.25, latency_us: 30}}
hosts:
  - {name: "n{1-2}", accelerators: 4}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One application, measured on a few placements, and a workload of two jobs."""
    net = tmp_path / "net"
    net.mkdir()
    places = [(1, 1, 1), (2, 1, 2), (4, 1, 4), (11, 2, 2), (22, 2, 4), (44, 2, 8)]
    lines = ["placement,local_bsz,step_time,sync_time"]
    scaling = ["num_nodes,num_replicas,local_bsz,step_time,sync_time"]
    for name, hosts, replicas in places:
        for local in (8, 32):
            sync = 0.001 if replicas == 1 else 0.01 * hosts
            lines.append(f"{name},{local},{0.02 + 0.002 * local + sync},{sync}")
    for hosts, replicas in ((2, 3), (2, 6), (3, 3), (3, 12)):
        for local in (8, 32):
            sync = 0.01 * hosts
            scaling.append(f"{hosts},{replicas},{local},{0.02 + 0.002 * local + sync},{sync}")
    (net / "placements.csv").write_text("\n".join(lines))
    (net / "scalability.csv").write_text("\n".join(scaling))
    for batch in (32, 128):
        rows = ["progress,iteration,metric,grad_sqr,grad_var"]
        rows += [f"{500 * e},{500 * e * 32 // batch},0,1.0,{4.0 * e}" for e in (1, 2, 3)]
        (net / f"validation-{batch}.csv").write_text("\n".join(rows))
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "two.csv").write_text(WORKLOAD)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    return tmp_path


def test_applications_and_workloads_are_read(folder: Path) -> None:
    applications = read_applications(folder)
    net = applications["net"]
    assert (net.batches.initial, net.batches.largest) == (32, 128)
    assert (net.batches.min_local, net.batches.max_local) == (8, 32)
    assert net.step((4,), 20)[1] == pytest.approx(0.01)
    # Between what was measured, by hosts and replicas.
    assert net.step((1, 2, 2), 8)[1] == pytest.approx(0.03)
    assert net.iterations_at(64, 3) == pytest.approx((1500 * 2 + 375) / 3)
    jobs = read_workload(folder / "workloads" / "two.csv", applications)
    assert [(each.job_id, each.asked_replicas) for each in jobs] == [("a", 2), ("b", 4)]
    assert jobs[0].max_replicas == 16


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no folder with a placements\.csv in it"):
        read_applications(folder / "workloads")
    applications = read_applications(folder)
    wrong = folder / "workloads" / "wrong.csv"
    wrong.write_text(WORKLOAD.replace("b,70,net", "b,70,gone"))
    with pytest.raises(InputError, match="job b is of gone, of which there are no measurements"):
        read_workload(wrong, applications)
    wrong.write_text("name,time\na,1\n")
    with pytest.raises(InputError, match="no column application; there are name, time"):
        read_workload(wrong, applications)
    wrong.write_text(WORKLOAD.replace("b,70,net,4", "b,70,net,17"))
    with pytest.raises(InputError, match="job b asks for num_replicas 17, net can use 16: it was"):
        read_workload(wrong, applications)
    (folder / "net" / "scalability.csv").unlink()
    with pytest.raises(InputError, match=r"scalability\.csv: cannot be read"):
        read_applications(folder)


def test_simulate_prints_a_table_and_writes_a_page(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "simulate", str(folder / "workloads" / "two.csv"), "--cluster", str(folder / "cluster.yaml"),
        "--policies", "dagopt,fifo",
    ]  # fmt: skip
    page = folder / "out.html"
    assert main([*arguments, "--html", str(page)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["policy", "dagopt", "fifo"]
    assert "dagopt" in page.read_text(encoding="utf-8")
    assert main([*arguments, "--html", str(page)]) == 2
    assert "--force overwrites" in capsys.readouterr().err
    assert main([*arguments, "--json", "--fail", "n1@200+100"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["policy"] for each in found] == ["dagopt", "fifo"]
    assert all(each["avg_jct_s"] > 0 for each in found)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--policies", "best"],
            "policy 'best': there are dagopt, dagopt-apart, dagopt-throughput, fifo",
        ),
        (["--fail", "n9@1+1"], "failure of n9: no such host; there are n1, n2"),
        (["--fail", "n1"], "--fail n1: expected HOST@AT+FOR, in seconds"),
        (["--interval", "0"], "expected restart >= 0 and interval > 0"),
    ],
)
def test_wrong_options_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    arguments = ["simulate", str(folder / "workloads" / "two.csv"), "--cluster"]
    assert main([*arguments, str(folder / "cluster.yaml"), *more]) == 2
    assert message in capsys.readouterr().err


def test_topology_draws_and_prints_matrices(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", str(folder / "cluster.yaml"), "--matrix", "all"]) == 0
    text = capsys.readouterr().out
    assert "└─ n2 (1.25 GB/s to network)" in text
    assert "4 accelerators, all pairs local at 12 GB/s" in text
    assert "distance (hops)" in text
    assert main(["topology", str(folder / "cluster.yaml"), "--json", "--host", "n1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accelerators"] == ["n1:0", "n1:1", "n1:2", "n1:3"]
    assert found["bandwidth_bytes_per_s"][0][:2] == [None, 12e9]
    assert main(["topology", str(folder / "cluster.yaml"), "--host", "x"]) == 2
    assert "--host x: no such host; there are n1, n2" in capsys.readouterr().err


def test_a_table_of_nvidia_smi_is_a_topology(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.txt"
    path.write_text(TABLE)
    assert len(read_topology(path).accelerators) == 4
    assert main(["topology", str(path)]) == 0
    assert "NV4 at 100 GB/s: 0-1" in capsys.readouterr().out
    broken = tmp_path / "broken.yaml"
    broken.write_text("hosts: [")
    with pytest.raises(InputError, match=r"broken\.yaml: not YAML"):
        read_topology(broken)
