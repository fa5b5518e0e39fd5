// The parts of this folder as a plugin, for programs beside `lockstep`, which has them already.
#include <apps/ocr/parts.h>
#include <lockstep/train/plugin.h>

#include <utility>

void lockstep_plugin(lockstep::train::Parts& parts) { parts = lockstep::ocr::with_ocr_parts(std::move(parts)); }
