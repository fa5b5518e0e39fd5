// Transforms of pictures of words.
#pragma once

#include <lockstep/samples/dataset.h>

#include <vector>

namespace lockstep::ocr {

/// turn_tall and resize_to_height.
std::vector<samples::TransformPart> word_transforms();

}  // namespace lockstep::ocr
