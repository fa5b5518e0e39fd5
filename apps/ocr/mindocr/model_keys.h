// The keys of MindOCR's models, data sets and transforms.
#pragma once

#include <apps/ocr/mindocr/given_keys.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::ocr {

/// A conversion under way.
struct Conversion {
  GivenKeys given;
  ConfigNode ours;
  std::vector<std::string> lost;
  std::vector<std::string> notes;
  std::vector<std::string> passed_over;
  bool half_precision = false;
};

/// Takes a value that keeps its meaning.
void carry(Conversion& c, std::string_view theirs, std::string_view ours);

void convert_detection(Conversion& c);
void convert_recognition(Conversion& c);

}  // namespace lockstep::ocr
