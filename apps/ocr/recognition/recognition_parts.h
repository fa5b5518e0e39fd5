// The parts that read words in pictures.
#pragma once

#include <lockstep/train/parts.h>

namespace lockstep::ocr {

void add_recognition_parts(train::Parts& parts);

}  // namespace lockstep::ocr
