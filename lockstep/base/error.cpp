// Lockstep's exception type: names of the kinds, and the text "[where] message (file:line)".
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>

namespace lockstep {
namespace {

std::string compose(std::string_view where, std::string_view message, const FilePosition& position) {
  std::string text = fmt::format("[{}] {}", where, message);
  if (!position.file.empty()) {
    text +=
        position.line > 0 ? fmt::format(" ({}:{})", position.file, position.line) : fmt::format(" ({})", position.file);
  }
  // Quoted text may contain any bytes: a NUL would end what() early, and an escape sequence would act on the terminal.
  return shown_message(text);
}

}  // namespace

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::config: return "config";
    case ErrorKind::environment: return "environment";
    case ErrorKind::io: return "io";
    case ErrorKind::data: return "data";
    case ErrorKind::timeout: return "timeout";
    case ErrorKind::peer_lost: return "peer_lost";
    case ErrorKind::mismatch: return "mismatch";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::numeric: return "numeric";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::string_view where, std::string_view message, FilePosition position)
    : std::runtime_error(compose(where, message, position)),
      kind_(kind),
      where_(where),
      message_(shown_message(message)),
      position_(std::move(position)) {}

}  // namespace lockstep
