// Lists of transforms in a run's configuration, which may have words of other frameworks.
#pragma once

#include <lockstep/base/foreign_words.h>
#include <lockstep/samples/transform.h>

#include <string_view>
#include <vector>

namespace lockstep::samples {

/// transforms_of() of transform.h, whose messages about unknown arguments translate `words`.
Transform transforms_of(const ConfigNode& list, std::string_view what, const ForeignWords& words,
                        const std::vector<TransformPart>& parts, bool with_random = true);

}  // namespace lockstep::samples
