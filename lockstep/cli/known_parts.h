// The parts that a configuration of the program `lockstep` can name, before its plugins.
#pragma once

#include <lockstep/ocr/parts.h>
#include <lockstep/train/parts.h>

#include <memory>

namespace lockstep::cli {

inline std::shared_ptr<const train::Parts> known_parts() {
  static const auto parts = std::make_shared<const train::Parts>(ocr::with_ocr_parts(train::shipped_parts()));
  return parts;
}

}  // namespace lockstep::cli
