// The conversion of MindOCR's configurations to ours.
#pragma once

#include <lockstep/base/config.h>

#include <string>
#include <vector>

namespace lockstep::ocr {

struct ConvertedConfig {
  ConfigNode root;                       ///< our keys
  std::vector<std::string> lost;         ///< keys whose values have no counterpart: "train.ema_decay (line 12)"
  std::vector<std::string> notes;        ///< actions and facts for the user
  std::vector<std::string> passed_over;  ///< keys without a meaning here: "system.mode"
};

/// MindOCR's sections system, model, postprocess, metric, loss, scheduler, optimizer, loss_scaler, train and eval, of
/// DBNet and CRNN. Error(config) for a file that is not MindOCR's, for another kind of model, and for a detector with
/// several label files, because text_boxes reads only one.
ConvertedConfig convert_mindocr(const ConfigNode& theirs);

/// The file that `lockstep convert` writes: comments with the notes, the lost keys and the ignored keys, then YAML.
std::string converted_text(const ConvertedConfig& converted, const std::string& from);

}  // namespace lockstep::ocr
