"""Prints what TensorBoard's own reader finds in a folder of event files, as JSON."""
import io
import json
import sys

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator, STORE_EVERYTHING_SIZE_GUIDANCE


def picture(event):
    image = Image.open(io.BytesIO(event.encoded_image_string))
    image.load()
    return {"step": event.step, "width": event.width, "height": event.height, "mode": image.mode,
            "size": image.size, "pixels": list(image.tobytes())}


def histogram(event):
    return {"step": event.step, **event.histogram_value.__dict__}


def main():
    events = EventAccumulator(sys.argv[1], size_guidance=STORE_EVERYTHING_SIZE_GUIDANCE)
    events.Reload()
    tags = events.Tags()
    print(json.dumps({
        "scalars": {tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)] for tag in tags["scalars"]},
        "histograms": {tag: [histogram(e) for e in events.Histograms(tag)] for tag in tags["histograms"]},
        "pictures": {tag: [picture(e) for e in events.Images(tag)] for tag in tags["images"]},
    }))


main()
