// The parts of all optimizers, file by file: LOCKSTEP_OPTIMIZERS is the list of train/CMakeLists.txt, as X(NAME)
// X(NAME) and so on.
#include <lockstep/train/optimizer/optimizer_parts.h>

#include <iterator>
#include <utility>

namespace lockstep::train {

#define X(name) std::vector<OptimizerPart> name##_parts();
LOCKSTEP_OPTIMIZERS
#undef X

std::vector<OptimizerPart> optimizer_parts() {
  std::vector<OptimizerPart> parts;
  const auto add = [&parts](std::vector<OptimizerPart> more) {
    std::move(more.begin(), more.end(), std::back_inserter(parts));
  };
#define X(name) add(name##_parts());
  LOCKSTEP_OPTIMIZERS
#undef X
  return parts;
}

}  // namespace lockstep::train
