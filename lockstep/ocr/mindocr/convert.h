// Configurations of MindOCR, which become ours.
#pragma once

#include <lockstep/base/config.h>

#include <string>
#include <vector>

namespace lockstep::ocr {

struct ConvertedConfig {
  ConfigNode root;                       ///< our keys
  std::vector<std::string> lost;         ///< keys whose values have no counterpart: "train.ema_decay (line 12)"
  std::vector<std::string> notes;        ///< what a person has to do or to know
  std::vector<std::string> passed_over;  ///< keys that say nothing here: "system.mode"
};

/// MindOCR's sections system, model, postprocess, metric, loss, scheduler, optimizer, loss_scaler, train and eval, of
/// DBNet and CRNN. Error(config) for a file that is none of MindOCR's, for another kind of model, and where a detector
/// has several label files, as text_boxes reads one.
ConvertedConfig convert_mindocr(const ConfigNode& theirs);

/// The file that `lockstep convert` writes: YAML, behind comments with the notes, what was lost and what was passed
/// over.
std::string converted_text(const ConvertedConfig& converted, const std::string& from);

}  // namespace lockstep::ocr
