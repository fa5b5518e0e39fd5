// The list of shipped parts, and the errors of names that are in none of its lists.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/optimizer/schedule.h>
#include <lockstep/train/tasks/classification.h>

#include <fmt/ranges.h>

namespace lockstep::train {

// LOCKSTEP_PART_FILES is the list of train/CMakeLists.txt, as X(NAME) X(NAME) and so on.
#define X(name) void add_##name(Parts& parts);
LOCKSTEP_PART_FILES
#undef X

Parts shipped_parts() {
  Parts parts;
  parts.losses = classification_losses();
  parts.schedules = schedule_parts();
  parts.metrics = shipped_metrics();
  parts.transforms = samples::shipped_transforms();
  parts.wrappers = wrapper_parts();
#define X(name) add_##name(parts);
  LOCKSTEP_PART_FILES
#undef X
  return parts;
}

const std::shared_ptr<const Parts>& shared_shipped_parts() {
  static const auto shipped = std::make_shared<const Parts>(shipped_parts());
  return shipped;
}

void require_makers(const Parts& parts) {
  for_each_kind([&](std::string_view kind, std::string_view, auto member) {
    for (const auto& part : parts.*member) {
      if (part.name.empty()) fail(ErrorKind::invalid_argument, "parts", "one of {} has no name; give it one", kind);
      const auto need = [&](bool given, std::string_view function) {
        if (given) return;
        fail(ErrorKind::invalid_argument, "parts", "'{}' of {} has no function `{}`; give it one", part.name, kind,
             function);
      };
      if constexpr (requires { part.make_for_batches; }) {
        need(part.make || part.make_for_batches, "make");
      } else if constexpr (requires { part.make; }) {
        need(static_cast<bool>(part.make), "make");
      } else if constexpr (requires { part.load; }) {
        need(static_cast<bool>(part.load), "load");
      }
    }
  });
}

void fail_unknown_part(const std::vector<std::string>& names, std::string_view name, std::string_view key) {
  fail(ErrorKind::config, key, "'{}' is not one of {}{}", name, fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace lockstep::train
