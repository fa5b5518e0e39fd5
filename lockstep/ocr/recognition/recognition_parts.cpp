#include <lockstep/ocr/recognition/recognition_parts.h>

namespace lockstep::ocr {

void add_recognition_parts(train::Parts&) {}

}  // namespace lockstep::ocr
