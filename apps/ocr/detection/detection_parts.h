// The parts that find text in pictures.
#pragma once

#include <lockstep/train/parts.h>

namespace lockstep::ocr {

void add_detection_parts(train::Parts& parts);

}  // namespace lockstep::ocr
