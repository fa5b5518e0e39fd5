// The OCR parts of this build: text recognition always, text detection or its stand-ins by LOCKSTEP_HAS_OCR.
#include <apps/ocr/parts.h>

#include <apps/ocr/missing_parts.h>
#include <apps/ocr/recognition/recognition_parts.h>

#if LOCKSTEP_HAS_OCR
#include <apps/ocr/detection/detection_parts.h>
#endif

namespace lockstep::ocr {

bool has_ocr() { return LOCKSTEP_HAS_OCR != 0; }

train::Parts with_ocr_parts(train::Parts parts) {
  add_recognition_parts(parts);
#if LOCKSTEP_HAS_OCR
  add_detection_parts(parts);
#else
  add_missing_parts(parts);
#endif
  return parts;
}

}  // namespace lockstep::ocr
