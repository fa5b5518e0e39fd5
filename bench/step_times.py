"""How long the steps of a training run took, from what it wrote."""
import json
import statistics


def median_step_seconds(work_dir, samples, warmup):
    """Of the steps after the first `warmup`; `samples` are those of all ranks in a step. Needs callbacks.metrics_every=1."""
    lines = [json.loads(line) for line in (work_dir / "metrics.jsonl").read_text().splitlines()]
    return statistics.median([samples / line["samples_per_s"] for line in lines][warmup:])
