// The transforms of photographs with words, as parts that a configuration names.
#pragma once

#include <lockstep/samples/dataset.h>

#include <vector>

namespace lockstep::ocr {

std::vector<samples::TransformPart> text_transforms();

}  // namespace lockstep::ocr
