#include <lockstep/cluster/macros.h>

namespace lockstep::cluster {

std::string replace_macros(std::string_view text, const Macros& macros) {
  std::string result;
  while (true) {
    const auto start = text.find("${");
    const auto end = start == std::string_view::npos ? start : text.find('}', start);
    if (end == std::string_view::npos) return result.append(text);
    const auto macro = macros.find(text.substr(start + 2, end - start - 2));
    if (macro == macros.end()) {
      result.append(text.substr(0, start + 2));
      text.remove_prefix(start + 2);
      continue;
    }
    result.append(text.substr(0, start)).append(macro->second);
    text.remove_prefix(end + 1);
  }
}

}  // namespace lockstep::cluster
