#include <lockstep/ocr/detection/detection_parts.h>

namespace lockstep::ocr {

void add_detection_parts(train::Parts&) {}

}  // namespace lockstep::ocr
