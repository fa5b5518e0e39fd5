// A guard around optional writes: errors of the file system become one warning, other errors propagate.
#include <lockstep/train/output/only_informs.h>

#include <lockstep/base/error.h>

#include <fmt/format.h>

#include <ios>
#include <optional>
#include <system_error>

namespace lockstep::train {
namespace {

/// The error of the file system; nullopt: there was none.
std::optional<std::string> refusal_of(const std::function<void()>& write) {
  try {
    write();
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io) throw;
    return error.message();
  } catch (const std::system_error& error) {  // of std::filesystem and of streams, too
    return error.what();
  }
}

}  // namespace

bool OnlyInforms::write(const RunView& run, const std::function<void()>& write) {
  const auto why = refusal_of(write);
  if (why && !refused_) run.tell(fmt::format("warning: training goes on without {}: {}", what_, *why));
  if (!why && refused_) run.tell(fmt::format("{} is written again", what_));
  refused_ = why.has_value();
  return !refused_;
}

}  // namespace lockstep::train
