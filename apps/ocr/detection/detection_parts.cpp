// The registration of text detection's parts: the model dbnet, its data set, its task and its transforms.
#include <apps/ocr/detection/detection_parts.h>

#include <apps/ocr/detection/dbnet.h>
#include <apps/ocr/detection/text_boxes.h>
#include <apps/ocr/detection/text_detection.h>
#include <apps/ocr/detection/text_transforms.h>

#include <memory>

namespace lockstep::ocr {

void add_detection_parts(train::Parts& parts) {
  parts.models.push_back(
      {.name = "dbnet",
       .doc = "finds text by segmentation with a learned threshold; ResNet-18, -50 or MobileNetV3",
       .options = PartOptions::of(DbnetOptions{}),
       .make = [](const PartOptions& options) { return std::make_shared<Dbnet>(options.as<DbnetOptions>()); },
       .task = "text_detection",
       .start = [](const PartOptions&,
                   torch::nn::Module& model) { return dynamic_cast<Dbnet&>(model).load_backbone(); },
       .divisible = false});
  parts.data.push_back({.name = "text_boxes",
                        .doc = "photographs with the polygons of their words: labels in MindOCR's form or ICDAR's",
                        .options = PartOptions::of(TextBoxesOptions{}),
                        .load = [](const PartOptions& options, data::Split split) {
                          return load_text_boxes(options.as<TextBoxesOptions>(), split);
                        }});
  parts.tasks.push_back(
      {.name = "text_detection",
       .doc = "the words of photographs; precision, recall and hmean of ICDAR 2015",
       .options = PartOptions::of(TextDetectionOptions{}),
       .make = [](const PartOptions& options) { return make_text_detection(options.as<TextDetectionOptions>()); },
       .measures = {{"precision", "recall", "hmean"}}});
  const auto transforms = text_transforms();
  parts.transforms.insert(parts.transforms.end(), transforms.begin(), transforms.end());
}

}  // namespace lockstep::ocr
