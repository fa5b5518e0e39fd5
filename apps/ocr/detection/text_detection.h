// The task of finding the words in photographs, for models with DBNet's maps as output.
#pragma once

#include <apps/ocr/detection/dbnet_loss.h>
#include <apps/ocr/detection/find_boxes.h>
#include <lockstep/base/config.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::ocr {

struct TextDetectionOptions {
  DbnetLossOptions loss;
  FindOptions find;
  std::int64_t workers = 1;                   ///< threads
  std::int64_t contact_sheet = 0;             ///< pictures that are shown after an evaluation
  std::optional<std::string> read_config{};   ///< of a model that reads the words of predictions
  std::optional<std::string> read_weights{};  ///< its weights
};
void describe(ConfigFields& fields, TextDetectionOptions& options);

/// For Dbnet and the samples of text_boxes.h after text_shrink_map and, in training, text_border_map. Metrics:
/// precision, recall and hmean of ICDAR 2015 over all pictures of all ranks; the loss of an evaluation covers only the
/// probability. Predicts `words`, in JSON: [{"points": [[x, y], ...], "score": s}, ...], and `picture`, the file; with
/// the file det_results.txt in MindOCR's form (name, tab, list of polygons), and a picture NAME_words.png with outlines
/// for each one. With read_config, words have a "transcription", and there is system_results.txt, which has it, too.
std::shared_ptr<train::Task> make_text_detection(const TextDetectionOptions& options);

}  // namespace lockstep::ocr
