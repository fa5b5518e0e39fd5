// A description of the differences between a file's tensors and a module's.
#pragma once

#include <lockstep/train/named_tensors.h>

#include <string>
#include <vector>

namespace lockstep::train {

/// The names of tensors that do not fit, each list in alphabetical order.
struct WeightDifferences {
  std::vector<std::string> missing;     ///< in the file
  std::vector<std::string> unexpected;  ///< unknown to the module
  std::vector<std::string> unlike;      ///< of another shape, or of a type that is not converted

  bool none() const { return missing.empty() && unexpected.empty() && unlike.empty(); }
};

WeightDifferences compare(const NamedTensors& own, const NamedTensors& stored);

/// "missing in the file (1): a.weight (near it: b.weight)" and so on, one text for each existing kind of difference,
/// with `most` names of each kind.
std::vector<std::string> in_words(const WeightDifferences& found, const NamedTensors& own, const NamedTensors& stored,
                                  std::size_t most);

/// Advice, beginning with "; ". `may_be_random`: tensors of the module may keep their values.
std::string advice(const WeightDifferences& found, const NamedTensors& own, const NamedTensors& stored,
                   bool may_be_random);

}  // namespace lockstep::train
