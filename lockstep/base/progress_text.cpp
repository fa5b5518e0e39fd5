// Sentences about a rank's progress: its completed step, and the collective that it is in or has finished.
#include <lockstep/base/progress_text.h>

#include <fmt/core.h>

#include <tuple>

namespace lockstep {
namespace {

std::string describe(const CollectiveMark& mark) {
  return mark.group.empty() ? fmt::format("{} {}", mark.op, mark.number)
                            : fmt::format("{} {} of group \"{}\"", mark.op, mark.number, mark.group);
}

std::string describe_step(const RankProgress& progress) {
  if (progress.step) return fmt::format("had completed step {}", *progress.step);
  if (progress.backwards == 0) return "";
  return fmt::format("had completed {} backward pass{}", progress.backwards, progress.backwards == 1 ? "" : "es");
}

std::string describe_collective(const RankProgress& progress) {
  if (!progress.begun) return "";
  if (progress.begun == progress.ended) return fmt::format("had finished {}", describe(*progress.begun));
  const double seconds = static_cast<double>(progress.since_begun.count()) / 1000.0;
  auto text = fmt::format("was in {}, which it began {:.1f} s before", describe(*progress.begun), seconds);
  // Several collectives may be in progress.
  if (progress.ended) text += fmt::format(" (the last that ended: {})", describe(*progress.ended));
  return text;
}

auto place_of(const RankProgress& progress) {
  return std::tie(progress.step, progress.backwards, progress.begun, progress.ended);
}

}  // namespace

std::string describe(const RankProgress& progress) {
  const std::string step = describe_step(progress);
  const std::string collective = describe_collective(progress);
  return step + (step.empty() || collective.empty() ? "" : " and ") + collective;
}

bool same_place(const RankProgress& one, const RankProgress& other) { return place_of(one) == place_of(other); }

}  // namespace lockstep
