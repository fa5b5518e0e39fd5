// The parts that find text in pictures and read it: DBNet and CRNN with their data sets, transforms and tasks.
#pragma once

#include <lockstep/train/parts.h>

namespace lockstep::ocr {

/// `parts` and those of this folder, as in the program `lockstep` (docs/ocr.md). A build without OpenCV and Clipper has
/// only the names of the parts that find text: a configuration that uses one of them gets an Error(unsupported) that
/// names the packages to install.
train::Parts with_ocr_parts(train::Parts parts);

/// Whether this build has all of them.
bool has_ocr();

}  // namespace lockstep::ocr
