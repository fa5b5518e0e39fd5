// The names of the parts of this folder, for a library that was built without their dependencies.
#pragma once

#include <lockstep/train/parts.h>

namespace lockstep::ocr {

/// Adds parts of the same names as add_detection_parts() does. A read of a part's keys throws Error(unsupported), which
/// names the packages to install.
void add_missing_parts(train::Parts& parts);

}  // namespace lockstep::ocr
