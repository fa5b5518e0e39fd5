#include <lockstep/cluster/line_splitter.h>

namespace lockstep::cluster {
namespace {

/// The length of the first line in `text`, end included; 0 when its end has not come yet. A '\r' at the very end may be
/// the first half of "\r\n".
std::size_t first_line(std::string_view text) {
  const std::size_t end = text.find_first_of("\r\n");
  if (end == std::string_view::npos) return 0;
  if (text[end] == '\n') return end + 1;
  if (end + 1 == text.size()) return 0;
  return text[end + 1] == '\n' ? end + 2 : end + 1;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const Take& take) {
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::size_t line = first_line(rest);
    if (line == 0 && rest.size() < longest_) break;
    const std::size_t length = line != 0 && line <= longest_ ? line : longest_;
    take(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void LineSplitter::finish(const Take& take) {
  if (!pending_.empty()) take(pending_);
  pending_.clear();
}

}  // namespace lockstep::cluster
